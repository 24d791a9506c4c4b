//go:build !race

package kv

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

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
		{"errors", storage.Filter{States: []task.State{task.Error}}, 10, 20, 2},
		{"errors of a type", storage.Filter{States: []task.State{task.Error}, Types: []string{"1"}}, 5, 22, 2},
		{"errors of a type without any", storage.Filter{States: []task.State{task.Error}, Types: []string{"2"}}, 0, 2, 2},
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

func TestAPageOfManyTasksIsFoundAmongTheNewest(t *testing.T) {
	s, db := history(t, 2*fewCollected, 2*fewCollected)
	v := db.Read(s)
	q := storage.ListQuery{Filter: storage.Filter{States: []task.State{task.Waiting, task.Processing}}, Limit: 10, Scan: 1_000_000}
	var got []task.ID
	for range 3 {
		s.gets, s.seen = 0, 0
		page, err := v.List(t.Context(), q)
		if err != nil || len(page.Tasks) != q.Limit || s.gets+s.seen > fewCollected+newestRows {
			t.Fatalf("%d rows, %d gets, %d keys, %v", len(page.Tasks), s.gets, s.seen, err)
		}
		for _, r := range page.Tasks {
			got = append(got, r.ID)
		}
		q.Before = page.Next
	}
	q.Before, q.Limit = task.ID{}, 1000
	page, err := v.List(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	for i, id := range got {
		if page.Tasks[i].ID != id {
			t.Fatalf("row %d is %v, and in a long page %v", i, id, page.Tasks[i].ID)
		}
	}
}

// The newest rows of all have another state.
func TestAPageOfManyOldTasksIsFoundByTheIndex(t *testing.T) {
	s, db := history(t, 2*fewCollected, 2*fewCollected)
	ids, tx := task.NewIDs([32]byte{2}), db.Begin(s)
	for range newestRows + 1 {
		if _, err := tx.Insert(t.Context(), &task.Task{ID: ids.Next(moment.Add(time.Hour)), Version: 1, State: task.Done, Type: "0"}); err != nil {
			t.Fatal(err)
		}
	}
	tx.Committed()
	v := db.Read(s)
	page, err := v.List(t.Context(), storage.ListQuery{Filter: storage.Filter{States: []task.State{task.Waiting, task.Processing}}, Limit: 10, Scan: 1_000_000})
	if err != nil || len(page.Tasks) != 10 || page.Index != storage.IndexState || page.Read != 10 {
		t.Errorf("%d rows of %d, by the index of %q, %v", len(page.Tasks), page.Read, page.Index, err)
	}
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

// The memory of rows is used again. That changes neither rows that were handed out nor other rows.
func TestRowsInMemoryThatIsUsedAgainChangeNothingElse(t *testing.T) {
	s, db := filled(t, 0)
	db.recent = newRecent(64)
	rng, ids := rand.New(rand.NewPCG(1, 4)), task.NewIDs([32]byte{1})
	type pair struct{ got, want *task.Task }
	var handed []pair
	stored := make(map[task.ID]*task.Task)
	for n := range 300 {
		before, expected, keys := maps.Clone(s.keys), maps.Clone(stored), len(handed)
		tx := db.Begin(s)
		for i := range 30 {
			in := &task.Task{ID: ids.Next(moment), Type: "a", Payload: fmt.Appendf(nil, "payload %d of %d", i, n), Headers: map[string]string{"n": fmt.Sprint(n)}}
			in.Create(task.Submitted, moment, time.Time{})
			if got, err := tx.Insert(t.Context(), in); err != nil || !got[0].Created() {
				t.Fatal(got, err)
			}
			expected[in.ID] = in.Clone()
		}
		for id, old := range expected {
			c := task.Change{Ref: old.Ref(), To: task.Processing, At: moment, NextEventAt: moment, Owner: task.ID{1}}
			switch {
			case old.State == task.Done && rng.IntN(3) == 0:
				if gone, err := tx.Delete(t.Context(), old.Ref()); err != nil || !gone[0] {
					t.Fatal(gone, err)
				}
				delete(expected, id)
				continue
			case old.State == task.Done:
				continue
			case old.State == task.Processing:
				c = task.Change{Ref: old.Ref(), To: task.Done, At: moment, Outcome: task.Completed, Result: fmt.Appendf(nil, "result %d", n)}
				if rng.IntN(2) == 0 {
					c = task.Change{Ref: old.Ref(), To: task.Submitted, At: moment, Outcome: task.Errored, Error: fmt.Sprint("error ", n)}
				}
			}
			now := old.Clone()
			got, err := tx.Swap(t.Context(), c)
			if err != nil || !c.Apply(now) || got[0] == nil {
				t.Fatalf("%+v: %v, %v", c, got, err)
			}
			expected[id] = now
			handed = append(handed, pair{got[0], got[0].Clone()})
		}
		if n%5 == 4 {
			tx.RolledBack()
			s.keys, handed = before, handed[:keys]
			continue
		}
		tx.Committed()
		stored = expected
	}
	for _, p := range handed {
		if diff := cmp.Diff(p.want, p.got); diff != "" {
			t.Fatalf("a row that was handed out has changed:\n%s", diff)
		}
	}
	v := db.Read(s)
	for id, want := range stored {
		got, err := v.Get(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		if want.Seq = got.Seq; cmp.Diff(want, got) != "" {
			t.Fatalf("row %v:\n%s", id, cmp.Diff(want, got))
		}
	}
	if err := v.Check(); err != nil {
		t.Error(err)
	}
}
