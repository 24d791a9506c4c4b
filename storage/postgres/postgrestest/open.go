// Package postgrestest opens stores in PostgreSQL for tests.
package postgrestest

import (
	"testing"

	"github.com/taskengine/taskengine/internal/pgtest"
	"github.com/taskengine/taskengine/storage/postgres"
	"github.com/taskengine/taskengine/storage/postgres/schema"
)

// Tables returns the URL of a new database with the tables. See [pgtest.Server.Database] for the rest.
func Tables(tb testing.TB, server *pgtest.Server) string {
	tb.Helper()
	return server.Prepared(tb, func(url string) error {
		_, err := schema.Migrate(tb.Context(), url, schema.Default)
		return err
	})
}

// Open makes the tables in the database, unless it has them, and opens a store that is closed
// with the test.
func Open(tb testing.TB, url string) *postgres.Store {
	tb.Helper()
	if _, err := schema.Migrate(tb.Context(), url, schema.Default); err != nil {
		tb.Fatal(err)
	}
	s, err := postgres.Open(tb.Context(), url, postgres.Options{})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := s.Close(); err != nil {
			tb.Error(err)
		}
	})
	return s
}
