package postgres_test

import (
	"testing"
	"time"

	"github.com/taskengine/taskengine/internal/pgtest"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/storage/postgres/postgrestest"
	"github.com/taskengine/taskengine/task"
)

// The transaction of a handler keeps the row of its task locked for as long as the handler likes.
func TestARequestThatChangesNoTaskDoesNotWaitForOneThatIsLocked(t *testing.T) {
	url := server.Database(t)
	s := postgrestest.Open(t, url)
	ids, now := task.NewIDs([32]byte{1}), time.Now().UTC().Truncate(time.Second)
	row := func(typ string) *task.Task {
		r := &task.Task{ID: ids.Next(now), Type: typ, Key: "k", ReadyAt: now.Add(time.Hour)}
		(&task.Rules{}).Create(now, r)
		return r
	}
	begun, waits := row("begun"), row("waits")
	begun.StartedAt, begun.Attempt = now, 1
	if _, err := s.Insert(t.Context(), begun, waits); err != nil {
		t.Fatal(err)
	}
	c := pgtest.Connect(t, url)
	pgtest.Exec(t, c, "begin", "select from taskengine.task for update")
	for typ, mode := range map[string]task.OnConflict{"begun": task.ReplaceExisting, "waits": task.RejectNew} {
		want := map[task.OnConflict]task.Resolution{task.ReplaceExisting: task.Exists, task.RejectNew: task.Rejects}[mode]
		on := []storage.Terms{{Rules: &task.Rules{OnConflict: mode}}}
		out, err := s.Commit(t.Context(), &storage.Batch{Insert: []*task.Task{row(typ)}, Terms: on}).Wait()
		if err != nil || out.Inserted[0].What != want {
			t.Errorf("in a batch: %+v, %v", out.Inserted, err)
		}
		err = s.Update(t.Context(), func(tx storage.Tx) error {
			in, err := storage.Add(t.Context(), tx, []*task.Task{row(typ)}, on)
			if err == nil && in[0].What != want {
				t.Errorf("in a transaction: %+v", in)
			}
			return err
		})
		if err != nil {
			t.Errorf("in a transaction: %v", err)
		}
	}
	pgtest.Exec(t, c, "rollback")
}
