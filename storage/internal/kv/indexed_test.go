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

func TestWhatIsNotDoneIsFoundWithoutReadingWhatIs(t *testing.T) {
	s, db := history(t, 100_000, 10)
	v := db.Read(s)
	live := []task.State{task.Waiting, task.Submitted, task.Processing}
	for _, c := range []struct {
		name   string
		filter storage.Filter
		want   int
		list   int // keys and records read at most, by List
		count  int // likewise by Count
	}{
		{"errors", storage.Filter{States: []task.State{task.Error}}, 10, 20, 20},
		{"errors of a type", storage.Filter{States: []task.State{task.Error}, Types: []string{"1"}}, 5, 20, 20},
		{"waiting", storage.Filter{States: live[:1]}, 10, 24, 24},
		{"submitted", storage.Filter{States: live[1:2]}, 10, 20, 10},
		{"submitted of a type", storage.Filter{States: live[1:2], Types: []string{"0"}}, 5, 10, 5},
		{"live", storage.Filter{States: live}, 30, 68, 58},
	} {
		t.Run(c.name, func(t *testing.T) {
			s.gets, s.seen = 0, 0
			page, err := v.List(t.Context(), storage.ListQuery{Filter: c.filter, Limit: 100, Scan: 1000})
			rows, next := page.Tasks, page.Next
			if err != nil || len(rows) != c.want || !next.IsZero() || s.gets+s.seen > c.list {
				t.Errorf("list: %d rows, next %v, %d gets, %d keys, %v", len(rows), next, s.gets, s.seen, err)
			}
			for i, r := range rows {
				if !c.filter.Match(r.State, r.Type) || i > 0 && rows[i-1].ID.Compare(r.ID) <= 0 {
					t.Errorf("row %d is %v of type %q with id %v", i, r.State, r.Type, r.ID)
				}
			}
			s.gets, s.seen = 0, 0
			n, err := v.Count(t.Context(), c.filter)
			var sum int64
			for k := range n {
				sum += n[k]
			}
			if err != nil || sum != int64(c.want) || s.gets+s.seen > c.count {
				t.Errorf("count: %v, %d gets, %d keys, %v", n, s.gets, s.seen, err)
			}
		})
	}
	t.Run("a page of errors reads no others", func(t *testing.T) {
		s.gets, s.seen = 0, 0
		page, err := v.List(t.Context(), storage.ListQuery{Filter: storage.Filter{States: []task.State{task.Error}}, Limit: 3, Scan: 1000})
		rows, next := page.Tasks, page.Next
		if err != nil || len(rows) != 3 || next != rows[2].ID || s.gets+s.seen > 8 {
			t.Errorf("%d rows, next %v, %d gets, %d keys, %v", len(rows), next, s.gets, s.seen, err)
		}
	})
	t.Run("a list with more entries than its budget reads no more than twice that", func(t *testing.T) {
		s.gets, s.seen = 0, 0
		page, err := v.List(t.Context(), storage.ListQuery{Filter: storage.Filter{States: live}, Limit: 100, Scan: 7})
		next := page.Next
		if err != nil || next.IsZero() || s.gets+s.seen > 2*(7+1) {
			t.Errorf("next %v, %d gets, %d keys, %v", next, s.gets, s.seen, err)
		}
	})
}

func TestManyRowsAreCountedInBatches(t *testing.T) {
	const rows = countBatch + 3
	s, db := history(t, rows, rows)
	v := db.Read(s)
	n, err := v.Count(t.Context(), storage.Filter{States: []task.State{task.Error, task.Waiting}})
	if err != nil {
		t.Fatal(err)
	}
	for _, state := range []task.State{task.Error, task.Waiting} {
		if sum := n[storage.StateType{State: state, Type: "0"}] + n[storage.StateType{State: state, Type: "1"}]; sum != rows {
			t.Errorf("%d rows are %v, want %d", sum, state, rows)
		}
	}
}

func TestAnEntryWithoutARecordIsDamage(t *testing.T) {
	for _, state := range []task.State{task.Waiting, task.Submitted, task.Error} {
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
		if _, err := v.Count(t.Context(), only); state != task.Submitted && !errors.Is(err, ErrDamaged) {
			t.Errorf("count of %v: %v", state, err)
		}
	}
}
