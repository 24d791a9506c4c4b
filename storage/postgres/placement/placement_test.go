package placement_test

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/taskengine/taskengine/internal/pgtest"
	"github.com/taskengine/taskengine/task"
)

var server *pgtest.Server // set once, before the tests

func TestMain(m *testing.M) {
	os.Exit(pgtest.Run(m, func(s *pgtest.Server) { server = s }))
}

var moment = time.Date(2024, time.March, 1, 12, 0, 0, 0, time.UTC)

type querier interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// added is the answer of the SQL function add.
type added struct {
	id      task.ID
	created bool
}

// add adds a task from SQL, with arguments written in SQL.
func add(ctx context.Context, q querier, args string) (a added, err error) {
	err = q.QueryRow(ctx, "select id, created from taskengine.add("+args+")").Scan((*[16]byte)(&a.id), &a.created)
	return a, err
}

func mustAdd(t *testing.T, q querier, args string) added {
	t.Helper()
	a, err := add(t.Context(), q, args)
	if err != nil {
		t.Fatalf("add(%s): %v", args, err)
	}
	return a
}

// one returns the only value that a query finds.
func one[T any](t *testing.T, q querier, sql string, args ...any) (value T) {
	t.Helper()
	if err := q.QueryRow(t.Context(), sql, args...).Scan(&value); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return value
}
