package sharded_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/storage/postgres/placement"
	"github.com/taskengine/taskengine/storage/sharded"
	"github.com/taskengine/taskengine/task"
)

// What waits for a lock in one of the databases delays nothing else, in neither of them, and the answer names the session
// and its database.
func TestALockInOneOfTheDatabasesDelaysNothingElse(t *testing.T) {
	a, b := database(t, "a"), database(t, "b")
	if _, err := placement.Divide(t.Context(), a, b); err != nil {
		t.Fatal(err)
	}
	s, err := sharded.Open(t.Context(), []sharded.Database{{Name: "a", Store: a.Store}, {Name: "b", Store: b.Store}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	e, err := engine.Open(t.Context(), engine.Config{
		Store: s, Policies: policy.Set{Types: map[string]policy.Type{"work": policy.DefaultType()}},
		Handlers: map[string]task.Handler{"work": task.HandlerFunc(func(context.Context, *task.Task) ([]byte, error) { return nil, nil })},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
		defer cancel()
		if err := e.Close(ctx); err != nil {
			t.Error(err)
		}
	}()
	later, err := e.Submit(t.Context(), engine.Request{Type: "work", At: time.Now().Add(time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	var named string
	for _, d := range []placement.Database{a, b} { // one of them has the task
		tx, err := d.Pool().Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = tx.Rollback(context.Background()) }()
		if tag, err := tx.Exec(t.Context(), "select from taskengine.task where id = $1 for update", later[0].ID.String()); err != nil {
			t.Fatal(err)
		} else if tag.RowsAffected() > 0 {
			named = d.Name
		}
	}
	ctx, stop := context.WithCancel(t.Context())
	var clients sync.WaitGroup
	defer clients.Wait()
	defer stop()
	for range 4 {
		clients.Go(func() {
			for ctx.Err() == nil {
				if _, err := e.Cancel(t.Context(), task.Ref{ID: later[0].ID, Version: 1}, "not needed"); !errors.Is(err, storage.ErrBusy) {
					t.Errorf("a cancel of the locked task: %v", err)
					return
				}
			}
		})
	}
	enough, cancel := context.WithTimeout(t.Context(), 3*time.Minute) // if each waited behind a cancel: much longer
	defer cancel()
	for range 100 {
		receipts, err := e.Submit(enough, engine.Request{Type: "work"})
		if err == nil {
			err = e.WaitTasks(enough, receipts[0].ID)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for {
		blockers, err := e.Blockers(enough)
		if err != nil {
			t.Fatal(err)
		}
		for _, by := range blockers {
			if by.Database == named && strings.Contains(by.String(), " of "+named+" (") {
				return
			}
		}
	}
}
