//go:build !race

package postgres_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/taskengine/taskengine/internal/pgtest"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/storage/postgres/postgrestest"
	"github.com/taskengine/taskengine/task"
)

// The tables of ended tasks are dropped as a whole, and the keys of some of their rows are remembered for longer.
func TestKeysAreRememberedWhenTheTableOfTheirTasksIsDropped(t *testing.T) {
	url := server.Database(t)
	s := postgrestest.Open(t, url)
	const keep, remember = time.Hour, 72 * time.Hour
	if err := s.SetRules(t.Context(), storage.TypeRules{Type: "mail", Priority: 5, KeepDone: keep, Remember: remember}); err != nil {
		t.Fatal(err)
	}
	ids := task.NewIDs([32]byte{1})
	const keyed = 1200 // more than two pages
	var remembered []*task.Task
	for i := range keyed {
		remembered = append(remembered, finish(t, s, ids, moment, keep, fmt.Sprint("key ", i)))
	}
	plain := finish(t, s, ids, moment, keep, "")
	other := &task.Task{ID: ids.Next(moment), Version: 1, State: task.Done, Type: "other", Key: "key", CreatedAt: moment, UpdatedAt: moment, NextEventAt: moment.Add(keep)}
	cancelled := &task.Task{ID: ids.Next(moment), Version: 1, State: task.Cancelled, Type: "mail", Key: "cancelled", CreatedAt: moment, UpdatedAt: moment, NextEventAt: moment.Add(keep)}
	if _, err := s.Insert(t.Context(), other, cancelled); err != nil {
		t.Fatal(err)
	}
	expire(t, s, moment.Add(keep))
	if got, err := s.Get(t.Context(), remembered[0].ID); err != nil || got.Version != remembered[0].Version {
		t.Fatalf("before its retention is over it is %+v, %v", got, err)
	}
	next := expire(t, s, moment.Add(2*keep))
	for _, gone := range []*task.Task{plain, other, cancelled} {
		if _, err := s.Get(t.Context(), gone.ID); !errors.Is(err, task.ErrNotFound) {
			t.Errorf("the row of type %s with the key %q is there: %v", gone.Type, gone.Key, err)
		}
	}
	for i, was := range remembered {
		got, err := s.Get(t.Context(), was.ID)
		if err != nil || !got.Tombstone || got.State != task.Done || !got.UpdatedAt.Equal(moment) || !got.NextEventAt.Equal(moment.Add(remember)) {
			t.Fatalf("the row of key %d is %+v, %v", i, got, err)
		}
		if i%100 == 0 {
			again := &task.Task{ID: ids.Next(moment), Version: 1, State: task.Submitted, Type: "mail", Key: was.Key, CreatedAt: moment, UpdatedAt: moment, ReadyAt: moment}
			if in, err := s.Insert(t.Context(), again); err != nil || in[0].Existing != was.ID {
				t.Errorf("key %d is that of %+v, %v", i, in, err)
			}
		}
	}
	if next.IsZero() {
		t.Error("nothing else is to be removed")
	}
	if got, err := s.Count(t.Context(), storage.Filter{}); err != nil || got[storage.StateType{State: task.Done, Type: "mail"}] != keyed {
		t.Errorf("counted are %v, %v", got, err)
	}

	expire(t, s, moment.Add(remember+remember/4+time.Hour))
	if _, err := s.Get(t.Context(), remembered[0].ID); !errors.Is(err, task.ErrNotFound) {
		t.Errorf("it is there after the time for which its key is remembered: %v", err)
	}
	if n := one[int](t, pgtest.Connect(t, url), "select count(*) from taskengine.key"); n != 0 {
		t.Errorf("%d keys are left", n)
	}
}
