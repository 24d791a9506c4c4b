package life

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

// homes says which database holds which shard. It changes in transactions of the store.
type homes struct {
	mu       sync.Mutex
	of       [task.ShardCount]int // guarded by mu: by shard; databases while it is moved
	revision [databases]int       // guarded by mu: how often a database has got or lost shards
	moves    []moved              // guarded by mu
}

// moved is a step of a move.
type moved struct {
	at     time.Time
	shards task.Shards
	to     int
}

func newHomes() *homes {
	h := &homes{}
	for shard := range h.of {
		h.of[shard] = shard % databases
	}
	return h
}

// get returns the database of a shard.
func (h *homes) get(shard uint16) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.of[shard]
}

// held returns the shards among some that databases hold, without the ones that are left out; nil is all.
func (h *homes) held(of *task.Shards, left ...int) *task.Shards {
	h.mu.Lock()
	defer h.mu.Unlock()
	held := task.Shards{}
	for shard, at := range h.of {
		if at != databases && !slices.Contains(left, at) && (of == nil || of.Has(uint16(shard))) {
			held.Add(uint16(shard))
		}
	}
	return &held
}

// set makes the shards belong to a database, or to none.
func (h *homes) set(shards task.Shards, to int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.moves = append(h.moves, moved{time.Now(), shards, to})
	var concerned [databases + 1]bool
	for shard := range h.of {
		if shards.Has(uint16(shard)) {
			concerned[h.of[shard]], concerned[to] = true, true
			h.of[shard] = to
		}
	}
	for i := range h.revision {
		if concerned[i] {
			h.revision[i]++
		}
	}
}

// remarks returns the history of a shard.
func (h *homes) remarks(shard uint16) (out []remark) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, m := range h.moves {
		if m.shards.Has(shard) {
			text := fmt.Sprintf("its shard is in database %d", m.to)
			if m.to == databases {
				text = "its shard leaves"
			}
			out = append(out, remark{m.at, text, ""})
		}
	}
	return out
}

// at returns how often a database has got or lost shards.
func (h *homes) at(database int) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.revision[database]
}

// move moves shards from one database to the other. One of eight moves is interrupted for long.
func (w *world) move() {
	from, to := 0, 1
	if w.roll(2) == 0 {
		from, to = to, from
	}
	var some task.Shards
	for range 1 + w.roll(300) {
		if shard := uint16(w.roll(task.ShardCount)); w.homes.get(shard) == from {
			some.Add(shard)
		}
	}
	takes := w.span(0, 3*time.Second)
	if w.roll(8) == 0 {
		takes = time.Minute
	}
	set := func(to int) {
		err := w.base.Update(context.Background(), func(storage.Tx) error {
			w.homes.set(some, to)
			return nil
		})
		if err != nil {
			w.fail("a move: %v", err)
		}
	}
	set(databases)
	w.flights.Go(func() {
		for begin := time.Now(); time.Since(begin) < takes && !w.calm.Load(); {
			time.Sleep(50 * time.Millisecond)
		}
		set(to)
	})
}
