//go:build !race

package postgres_test

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/taskengine/taskengine/internal/pgtest"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/storage/postgres"
	"github.com/taskengine/taskengine/storage/postgres/postgrestest"
	"github.com/taskengine/taskengine/task"
)

// turnOf returns the turn of a row and whether it is queued; it is queued for no reason if it has ended.
func turnOf(t *testing.T, s *postgres.Store, id task.ID) (turn task.Turn, queued bool) {
	t.Helper()
	got, err := s.Get(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return got.Turn, one[bool](t, s.Pool(), "select coalesce((select queued from taskengine.task where id = $1), false)", id)
}

// The statements are those of the version before.
func TestAProgramOfTheVersionBeforeRunsNothingThatIsBehindAndEndsTasks(t *testing.T) {
	s := postgrestest.Open(t, server.Database(t))
	head, behind := ordered(1, "k"), ordered(2, "k")
	commit(t, s, &storage.Batch{Insert: []*task.Task{head, behind}})
	c := s.Pool()
	affected := func(sql string, args ...any) int64 {
		t.Helper()
		done, err := c.Exec(t.Context(), sql, args...)
		if err != nil {
			t.Fatal(err)
		}
		return done.RowsAffected()
	}
	const grab = "update taskengine.task set version = version + 1, state = 3, owner = $2 where id = $1 and state = 2"
	if n := affected(grab, behind.ID, task.ID{1}); n != 0 {
		t.Error("it grabs a task that is behind")
	}
	if n := affected("update taskengine.task set version = version + 1, queued = true, state = 2 where id = $1", behind.ID); n != 1 {
		t.Error("it cannot change a task that is behind")
	}
	if turn, queued := turnOf(t, s, behind.ID); turn != task.Behind || queued {
		t.Errorf("turn %v, queued %v", turn, queued)
	}
	if n := affected(grab, head.ID, task.ID{1}); n != 1 {
		t.Error("it cannot grab the head")
	}
	end := task.Change{Ref: task.Ref{ID: head.ID, Version: 2}, To: task.Done, At: time.Now(), Outcome: task.Completed}
	if _, err := s.Insert(t.Context(), &task.Task{ID: task.ID{7}, Version: 1, State: task.Done, UpdatedAt: time.Now()}); err != nil { // makes the partition
		t.Fatal(err)
	}
	if n := affected(`
with gone as (delete from taskengine.task where id = $1 returning *)
insert into taskengine.ended
select gone.*, $2::bigint, 0 from gone`, head.ID, end.At.UnixMicro()); n != 1 {
		t.Error("it cannot end a task")
	}
	affected("update taskengine.ended set state = 7 where id = $1", head.ID)
	if turn, _ := turnOf(t, s, head.ID); turn != task.Unordered {
		t.Errorf("a task that it has ended has turn %v", turn)
	}
	page, err := s.Headless(t.Context(), "", 10)
	if err != nil || len(page.Keys) != 1 {
		t.Fatalf("keys without a head: %v, %v", page, err)
	}
	if heads, err := s.Promote(t.Context(), page.Keys...); err != nil || len(heads) != 1 || heads[0].ID != behind.ID {
		t.Errorf("heads: %v, %v", heads, err)
	}
	// That it was the head when it ended does not make it a second one.
	out := commit(t, s, &storage.Batch{Swap: []task.Change{{Ref: end.Ref, To: task.Submitted, At: time.Now(), Count: task.Reset}}})
	if out.Swapped[0] == nil {
		t.Fatal("it cannot be run again")
	}
	turn, queued := turnOf(t, s, head.ID)
	other, otherQueued := turnOf(t, s, behind.ID)
	if turn != task.Head || other != task.Behind || !queued || otherQueued {
		t.Errorf("turn %v, queued %v; of the other %v, %v", turn, queued, other, otherQueued)
	}
}

func TestTasksFromSQLAreBehindIfThereAreNodesThatKnowOrder(t *testing.T) {
	url := server.Database(t)
	s := postgrestest.Open(t, url)
	c, listener := pgtest.Connect(t, url), pgtest.Connect(t, url)
	if first := mustAdd(t, c, "'mail', ordering_key => 'k'"); one[int](t, c, "select shard >> 16 from taskengine.task where id = $1", first.id) != 0 {
		t.Error("a task is behind though no node would run it")
	}
	if err := s.SetRules(t.Context(), storage.TypeRules{Type: "mail", Priority: 5}); err != nil {
		t.Fatal(err)
	}
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
