package postgres_test

import (
	"errors"
	"slices"
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

// A batch behind which others wait may wait for the locked task of a key as long as such a batch waits, each time, until a
// patient wait for that lock has failed. Then such batches are refused at once, until a patient request has got the lock.
func TestTheLockedTaskOfAKeyIsRememberedWhenAPatientWaitForItHasFailed(t *testing.T) {
	url := server.Database(t)
	s := postgrestest.Open(t, url)
	ids, now := task.NewIDs([32]byte{2}), time.Now().UTC().Truncate(time.Second)
	row := func(key string) *task.Task {
		r := &task.Task{ID: ids.Next(now), Type: "mail", Key: key, ReadyAt: now.Add(time.Hour)}
		(&task.Rules{}).Create(now, r)
		return r
	}
	if _, err := s.Insert(t.Context(), row("k")); err != nil {
		t.Fatal(err)
	}
	replace := func(wait storage.Wait, keys ...string) (storage.Outcome, error) {
		b := &storage.Batch{Wait: wait}
		for _, key := range keys {
			b.Insert, b.Terms = append(b.Insert, row(key)), append(b.Terms, storage.Terms{Rules: &task.Rules{OnConflict: task.ReplaceExisting}})
		}
		return s.Commit(t.Context(), b).Wait()
	}
	refused := func(when, free string) {
		t.Helper()
		_, err := replace(storage.WaitLittle, free, "k")
		if blocked, ok := errors.AsType[*storage.Blocked](err); !ok || !slices.Equal(blocked.Rows, []int{1}) {
			t.Errorf("%s: %v", when, err)
		}
		if out, err := replace(storage.WaitLeast, free); err != nil || out.Inserted[0].What != task.Adds {
			t.Errorf("%s: a part of the batch was done: %+v, %v", when, out.Inserted, err)
		}
	}
	replaced := func(when string, wait storage.Wait) {
		t.Helper()
		if out, err := replace(wait, "k"); err != nil || out.Inserted[0].What != task.Replaces {
			t.Errorf("%s: %+v, %v", when, out.Inserted, err)
		}
	}
	c := pgtest.Connect(t, url)
	lock := []string{"begin", "select from taskengine.task where key = 'k' for update"}
	pgtest.Exec(t, c, lock...)
	refused("the task is locked", "a")
	pgtest.Exec(t, c, "rollback")
	replaced("it is free, and no patient wait has failed", storage.WaitLittle)
	pgtest.Exec(t, c, lock...)
	if _, err := replace(storage.WaitLong, "k"); !errors.Is(err, storage.ErrBusy) {
		t.Errorf("a patient wait: %v", err)
	}
	pgtest.Exec(t, c, "rollback")
	refused("a patient wait has failed", "b")
	replaced("a patient request", storage.WaitLong)
	replaced("a patient request has got the lock", storage.WaitLittle)
}
