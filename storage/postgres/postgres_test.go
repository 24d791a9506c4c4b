package postgres_test

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"os"
	"testing"

	"github.com/taskengine/taskengine/internal/pgtest"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/storage/postgres"
	"github.com/taskengine/taskengine/storage/postgres/postgrestest"
	"github.com/taskengine/taskengine/storage/postgres/schema"
	"github.com/taskengine/taskengine/storage/storagetest"
)

var server *pgtest.Server // set once, before the tests

func TestMain(m *testing.M) {
	flag.Parse()
	_ = flag.Set("test.parallel", "4") // they wait for the disk
	os.Exit(pgtest.Run(m, func(s *pgtest.Server) { server = s }))
}

func TestStore(t *testing.T) {
	empty := server.Database(t)
	if _, err := schema.Migrate(t.Context(), empty, schema.Default); err != nil {
		t.Fatal(err)
	}
	storagetest.RunParallel(t, func(t testing.TB) storage.Store {
		url := server.Copy(t, empty)
		return underTest{postgrestest.Open(t, url), url}
	})
}

// underTest is a store that can be reopened.
type underTest struct {
	*postgres.Store
	url string
}

func (s underTest) Reopen(t testing.TB) storage.Store {
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return underTest{postgrestest.Open(t, s.url), s.url}
}

// Check compares the counts with the rows.
func (s underTest) Check(ctx context.Context) error {
	got, err := s.Count(ctx, storage.Filter{})
	if err != nil {
		return err
	}
	want, err := countRows(ctx, s.Pool())
	if err == nil && !maps.Equal(got, want) {
		err = fmt.Errorf("it counts %v, and there are %v", got, want)
	}
	return err
}
