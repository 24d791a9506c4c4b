package postgres_test

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"os"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/taskengine/taskengine/internal/pgtest"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/storage/postgres"
	"github.com/taskengine/taskengine/storage/postgres/postgrestest"
)

var server *pgtest.Server // set once, before the tests

func TestMain(m *testing.M) {
	flag.Parse()
	_ = flag.Set("test.parallel", "4") // they wait for the disk
	os.Exit(pgtest.Run(m, func(s *pgtest.Server) { server = s }))
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

// Dump implements [storagetest.Dumper].
func (s underTest) Dump() ([]byte, error) {
	ctx := context.Background()
	names, err := s.Pool().Query(ctx, "select c.oid::regclass::text from pg_class c join pg_namespace n on n.oid = c.relnamespace where n.nspname = 'taskengine' and c.relkind = 'r'")
	if err != nil {
		return nil, err
	}
	tables, err := pgx.CollectRows(names, pgx.RowTo[string])
	if err != nil {
		return nil, err
	}
	var all []byte
	for _, table := range tables {
		rows, err := s.Pool().Query(ctx, "select * from "+table)
		if err != nil {
			return nil, err
		}
		for rows.Next() {
			values, err := rows.Values()
			if err != nil {
				return nil, err
			}
			for _, v := range values {
				if b, isBytes := v.([]byte); isBytes {
					all = append(all, b...)
				} else {
					all = fmt.Append(all, v)
				}
			}
		}
		if err := rows.Err(); err != nil {
			return nil, err
		}
	}
	return all, nil
}
