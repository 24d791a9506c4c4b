package kv

import (
	"encoding/binary"
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/taskengine/taskengine/task"
)

// count returns how many IDs are known.
func (c *recent) count() (n int) {
	for _, k := range c.known {
		n += len(k.ids)
	}
	return n
}

// Whatever is forgotten, a row that exists is never taken for one that does not, and a row is never taken
// for an older version of it.
func TestTheCacheNeverDeniesARowThatExists(t *testing.T) {
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 3))
		limit := 1 + rng.IntN(20)
		c := newRecent(limit)
		stored := make(map[task.ID]*row)
		clock := uint64(1)
		for range 1000 {
			clock += rng.Uint64N(3)
			at := clock - min(clock-1, rng.Uint64N(30)) // mostly of the last few, in any order
			id := task.ID(binary.BigEndian.AppendUint64(make([]byte, 8), at))
			if rng.IntN(6) == 0 {
				c.put(id, nil)
				delete(stored, id)
			} else {
				r := &row{Task: task.Task{ID: id, State: task.Processing}}
				switch rng.IntN(3) {
				case 0:
					r.State = task.Done
				case 1:
					r.LastError = string(make([]byte, rng.IntN(2)*(heavyRow+1)))
				}
				before, _ := c.lookup(id)
				if old, _ := c.put(id, r); old != before {
					t.Fatalf("seed %d: put returned %p, cached was %p", seed, old, before)
				}
				stored[id] = r
			}
			for id, r := range stored {
				if got, maybe := c.lookup(id); !maybe || got != nil && got != r {
					t.Fatalf("seed %d: of row %v the cache says %v, %v", seed, id, got, maybe)
				}
			}
			if known := c.count(); known > max(generations, limit) || len(c.rows) > known {
				t.Fatalf("seed %d: %d rows are known and %d cached, of %d", seed, known, len(c.rows), limit)
			}
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
