package pebble_test

import (
	"testing"
	"time"

	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

// Entries of indexes are collected apart from records until a transaction scans or is applied.
func TestATransactionScansItsWritesAndWritesOn(t *testing.T) {
	s := open(t, t.TempDir(), small)
	row := &task.Task{ID: task.ID{15: 1}, Type: "a"}
	row.Create(task.Submitted, moment, time.Time{})
	ready := func(in storage.Tasks) int {
		found, err := in.Ready(t.Context(), storage.ReadyQuery{Queue: row.Queue(), Limit: 10})
		if err != nil {
			t.Fatal(err)
		}
		return len(found)
	}
	move := func(tx storage.Tx, to task.State) {
		after, err := tx.Swap(t.Context(), task.Change{Ref: row.Ref(), To: to, At: moment, NextEventAt: moment.Add(time.Hour)})
		if err != nil || after[0] == nil {
			t.Fatalf("the change to %v gave %v, %v", to, after, err)
		}
		row.Version = after[0].Version
	}
	err := s.Update(t.Context(), func(tx storage.Tx) error {
		if _, err := tx.Insert(t.Context(), row); err != nil {
			return err
		}
		move(tx, task.Processing) // removes an entry that the transaction has put
		if n := ready(tx); n != 0 {
			t.Errorf("%d tasks are ready, want none", n)
		}
		move(tx, task.Submitted)
		if n := ready(tx); n != 1 {
			t.Errorf("%d tasks are ready, want one", n)
		}
		move(tx, task.Processing)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if n := ready(s); n != 0 {
		t.Errorf("after the commit %d tasks are ready, want none", n)
	}
	if err := s.Check(t.Context()); err != nil {
		t.Error(err)
	}
}
