package kv

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"

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
