//go:build unix

package postgres_test

import (
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/taskengine/taskengine/coord/coordtest"
	"github.com/taskengine/taskengine/coord/postgres"
	"github.com/taskengine/taskengine/internal/pgtest"
)

// BenchmarkSemaphore compares permits with a bare transaction of the same server: an update of one row
// that is durable when it returns.
func BenchmarkSemaphore(b *testing.B) {
	url := server.Database(b)
	conn := pgtest.Connect(b, url)
	pgtest.Exec(b, conn, "CREATE SCHEMA taskengine", "CREATE TABLE bare (id int PRIMARY KEY, n int)", "INSERT INTO bare VALUES (1, 0)")
	for _, ddl := range []func(string) string{postgres.DDL, postgres.Functions} {
		if _, err := conn.PgConn().Exec(b.Context(), ddl("taskengine")).ReadAll(); err != nil {
			b.Fatal(err)
		}
	}
	b.Run("transaction", func(b *testing.B) {
		for b.Loop() {
			if _, err := conn.Exec(b.Context(), "UPDATE bare SET n = n + 1 WHERE id = 1"); err != nil {
				b.Fatal(err)
			}
		}
	})
	pool, err := pgxpool.New(b.Context(), url)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(pool.Close)
	n, err := postgres.New(pool, postgres.Options{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = n.Close() })
	coordtest.BenchmarkSemaphore(b, n)
}
