//go:build !race

package postgres_test

import (
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/taskengine/taskengine/internal/pgtest"
	"github.com/taskengine/taskengine/storage/postgres/postgrestest"
)

func TestTasksFromSQLAreBehindUntilANodePromotesThem(t *testing.T) {
	url := server.Database(t)
	s := postgrestest.Open(t, url)
	c, listener := pgtest.Connect(t, url), pgtest.Connect(t, url)
	mustAdd(t, c, "'mail'")
	pgtest.Exec(t, listener, "listen taskengine")
	err := pgx.BeginFunc(t.Context(), c, func(tx pgx.Tx) error {
		for range 3 {
			mustAdd(t, tx, "'mail', ordering_key => 'k'")
		}
		mustAdd(t, tx, "'other', ordering_key => 'k', at => now() + interval '1 hour'")
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	pgtest.Exec(t, c, "notify taskengine, 'done'")
	var heard []string
	for len(heard) == 0 || heard[len(heard)-1] != "done" {
		n, err := listener.WaitForNotification(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		heard = append(heard, n.Payload)
	}
	if len(heard) != 2 || heard[0] != "k:234:bWFpbA==:aw==" {
		t.Errorf("the nodes hear %q", heard)
	}
	if n := one[int](t, c, "select count(*) from taskengine.tasks where waits_behind and shard = 234"); n != 4 {
		t.Errorf("%d tasks wait behind", n)
	}
	if n := one[int](t, c, "select count(*) from taskengine.task where queued"); n != 1 {
		t.Errorf("%d tasks are queued", n)
	}
	if heads, err := s.Promote(t.Context(), "k"); err != nil || len(heads) != 1 {
		t.Errorf("heads: %v, %v", heads, err)
	}
	if n := one[int](t, c, "select count(*) from taskengine.tasks where waits_behind"); n != 3 {
		t.Errorf("%d tasks wait behind", n)
	}
}
