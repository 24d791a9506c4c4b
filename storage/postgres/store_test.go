//go:build !race

package postgres_test

import (
	"testing"

	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/storage/postgres/postgrestest"
	"github.com/taskengine/taskengine/storage/postgres/schema"
	"github.com/taskengine/taskengine/storage/storagetest"
)

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
