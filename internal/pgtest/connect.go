package pgtest

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
)

// Connect returns a connection to a database. It is closed with the test, after its cleanups
// that were registered later.
func Connect(tb testing.TB, url string) *pgx.Conn {
	tb.Helper()
	ctx := context.WithoutCancel(tb.Context()) // cleanups use the connection, too
	c, err := pgx.Connect(ctx, url)
	if err != nil {
		tb.Fatalf("pgtest: %v", err)
	}
	tb.Cleanup(func() { _ = c.Close(ctx) })
	return c
}

// Exec runs SQL, each text as a whole: it may have several statements, and no arguments. Cleanups
// may call it, too.
func Exec(tb testing.TB, c *pgx.Conn, sql ...string) {
	tb.Helper()
	for _, text := range sql {
		if _, err := c.Exec(context.WithoutCancel(tb.Context()), text, pgx.QueryExecModeSimpleProtocol); err != nil {
			tb.Fatalf("pgtest: %s: %v", text, err)
		}
	}
}
