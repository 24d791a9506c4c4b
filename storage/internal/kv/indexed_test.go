package kv

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

// history returns a store with many rows that are done and, among them, a few rows in each of the other
// states, with and without times, of two types.
func history(t *testing.T, done, few int) (*sorted, *DB) {
	t.Helper()
	s := &sorted{keys: make(map[string][]byte)}
	db, err := Open("test", s, false)
	if err != nil {
		t.Fatal(err)
	}
	ids := task.NewIDs([32]byte{1})
	others := []task.State{task.Waiting, task.Submitted, task.Processing, task.Error}
	tx := db.Begin(s)
	for i := range done {
		state := []task.State{task.Done}
		if i%(done/few) == 0 {
			state = append(state, others...)
		}
		for _, state := range state {
			r := &task.Task{ID: ids.Next(moment), Version: 1, State: state, Type: fmt.Sprint(i / (done / few) % 2)}
			if state != task.Error && i/(done/few)%3 == 0 {
				r.NextEventAt = moment
			}
			if _, err := tx.Insert(t.Context(), r); err != nil {
				t.Fatal(err)
			}
		}
	}
	tx.Committed()
	return s, db
}

func TestAnEntryWithoutARecordIsDamage(t *testing.T) {
	for _, state := range []task.State{task.Waiting, task.Submitted, task.Error} {
		isCounted := state == task.Submitted || state == task.Error // without a look at the rows
		s, db := filled(t, 3)
		v := db.Read(s)
		for _, key := range slices.Sorted(maps.Keys(s.keys)) {
			if key[0] == prefixRecord && key[1] == byte(state) {
				delete(s.keys, key)
			}
		}
		only := storage.Filter{States: []task.State{state}}
		if _, err := v.List(t.Context(), storage.ListQuery{Filter: only, Limit: 9, Scan: 9}); !errors.Is(err, ErrDamaged) {
			t.Errorf("list of %v: %v", state, err)
		}
		if _, err := v.Count(t.Context(), only); !isCounted && !errors.Is(err, ErrDamaged) {
			t.Errorf("count of %v: %v", state, err)
		}
	}
}
