package sharded_test

import (
	"errors"
	"math"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/storage/sharded"
	"github.com/taskengine/taskengine/task"
)

// chaos is workers that use a store while shards are moved between its backends.
type chaos struct {
	*testing.T
	s        *sharded.Store
	backends []*backend
	moves    int
	rows     []*task.Task    // which all of them change
	seen     []atomic.Uint64 // of each the newest version that anybody knows of

	enough atomic.Bool // the workers shall end

	mu    sync.Mutex
	turn  *sync.Cond             // of mu: a worker has ended a call
	calls [4]int                 // guarded by mu: how many each worker has ended
	made  map[task.Ref]int       // guarded by mu: how often a version was certainly made
	maybe map[task.ID]uint64     // guarded by mu: how many changes may have been made or not
	fresh map[task.ID]*task.Task // guarded by mu: which workers have inserted and not removed
}

func TestNothingIsLostOrDoubledWhileShardsAreMoved(t *testing.T) {
	for _, seed := range []uint64{1, rand.Uint64()} {
		t.Logf("seed %d", seed)
		ps := backends(3)
		c := &chaos{T: t, s: open(t, ps...), backends: ps, made: make(map[task.Ref]int), maybe: make(map[task.ID]uint64), fresh: make(map[task.ID]*task.Task)}
		c.turn = sync.NewCond(&c.mu)
		c.rows = put(t, c.s, 0, 1, 2, 80, 90, 91, 160, 170, 171, 255)
		c.seen = make([]atomic.Uint64, len(c.rows))
		for i := range c.seen {
			c.seen[i].Store(1)
		}
		var workers sync.WaitGroup
		for w := range c.calls {
			workers.Go(func() { c.work(w, rand.New(rand.NewPCG(seed, uint64(w)))) })
		}
		for rng := rand.New(rand.NewPCG(seed, 99)); c.moves < 30; {
			c.moveSome(rng)
		}
		c.enough.Store(true)
		workers.Wait()
		c.check()
	}
}

// moveSome moves some shards when each worker has ended a call since the last move: none lasts
// for more than one.
func (c *chaos) moveSome(rng *rand.Rand) {
	c.mu.Lock()
	before := c.calls
	for w := range before {
		for c.calls[w] == before[w] {
			c.turn.Wait()
		}
	}
	c.mu.Unlock()
	from, to := c.backends[rng.IntN(3)], c.backends[rng.IntN(3)]
	first := rng.IntN(task.ShardCount)
	some := shards(first, min(task.ShardCount-1, first+rng.IntN(60)))
	here := from.home.Load().Owned
	rest := here.Without(&some)
	if some = here.Without(&rest); from == to || some.IsEmpty() {
		return
	}
	c.moves++
	move(c, from, to, some, func(string) bool { runtime.Gosched(); return true })
}

func (c *chaos) work(w int, rng *rand.Rand) {
	for !c.enough.Load() {
		switch rng.IntN(4) {
		case 0:
			c.get(rng)
		case 1:
			c.swap(rng)
		case 2:
			c.do(rng)
		case 3:
			c.remove()
		}
		c.mu.Lock()
		c.calls[w]++
		c.turn.Broadcast()
		c.mu.Unlock()
	}
}

// moving reports whether a call failed, which only moves are a reason for.
func (c *chaos) moving(err error) bool {
	if err != nil && !errors.Is(err, sharded.ErrMoving) && !errors.Is(err, storage.ErrElsewhere) {
		c.Error(err)
	}
	return err != nil
}

// get reads a row, which exists at a version that is no older than one that is known.
func (c *chaos) get(rng *rand.Rand) {
	i := rng.IntN(len(c.rows))
	known := c.seen[i].Load()
	got, err := c.s.Get(c.Context(), c.rows[i].ID)
	if !c.moving(err) && got.Version < known {
		c.Errorf("version %d was read after %d was made", got.Version, known)
	}
}

func (c *chaos) change(i int) task.Change {
	return task.Change{Ref: task.Ref{ID: c.rows[i].ID, Version: c.seen[i].Load()}, To: task.Waiting, At: epoch}
}

// changed notes the outcome of a change. A stale change is stale because another was made.
func (c *chaos) changed(i int, was task.Change, now *task.Task) {
	if now == nil {
		if got, err := c.s.Get(c.Context(), was.ID); !c.moving(err) && got.Version <= was.Version {
			c.Errorf("version %d was called stale when there was %d", was.Version, got.Version)
		} else if err == nil {
			c.know(i, got.Version)
		}
		return
	}
	c.know(i, now.Version)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.made[now.Ref()]++
}

// know notes that a version was made.
func (c *chaos) know(i int, version uint64) {
	for {
		seen := c.seen[i].Load()
		if seen >= version || c.seen[i].CompareAndSwap(seen, version) {
			return
		}
	}
}

// unknown notes that a change may have been made.
func (c *chaos) unknown(id task.ID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.maybe[id]++
}

// swap changes two rows, in a transaction or not.
func (c *chaos) swap(rng *rand.Rand) {
	i, j := rng.IntN(len(c.rows)), rng.IntN(len(c.rows))
	cs := []task.Change{c.change(i), c.change(j)}
	var now []*task.Task
	var err error
	within := rng.IntN(2) == 0
	if within {
		err = c.s.Update(c.Context(), func(tx storage.Tx) error {
			now, err = tx.Swap(c.Context(), cs...)
			return err
		})
	} else {
		now, err = c.s.Swap(c.Context(), cs...)
	}
	for k, row := range []int{i, j} {
		switch {
		case !c.moving(err):
			c.changed(row, cs[k], now[k])
		case !within: // a part may have been done
			c.unknown(cs[k].ID)
		}
	}
}

// do changes some rows and inserts others, as the engine does: nothing of that remains unknown.
func (c *chaos) do(rng *rand.Rand) {
	b, of := &storage.Batch{}, []int(nil)
	for range 1 + rng.IntN(4) {
		i := rng.IntN(len(c.rows))
		of, b.Swap = append(of, i), append(b.Swap, c.change(i))
	}
	for range rng.IntN(4) {
		b.Insert = append(b.Insert, row(uint16(rng.IntN(task.ShardCount))))
	}
	out, err := commit(c.Context(), c.s, b)
	if err != nil {
		c.Error(err)
		return
	}
	for k, ch := range b.Swap {
		c.changed(of[k], ch, out.Swapped[k])
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for k, t := range b.Insert {
		if c.fresh[t.ID] = t; !out.Inserted[k].Created() {
			c.Errorf("%v is in the way of %v", out.Inserted[k].Existing, t.ID)
		}
	}
}

// remove deletes a row that was inserted, until that is known to be done.
func (c *chaos) remove() {
	c.mu.Lock()
	var one *task.Task
	for _, one = range c.fresh {
		delete(c.fresh, one.ID)
		break
	}
	c.mu.Unlock()
	if one == nil {
		return
	}
	for tries := 0; ; tries++ {
		gone, err := c.s.Delete(c.Context(), one.Ref())
		if c.moving(err) {
			runtime.Gosched()
			continue
		}
		if !gone[0] && tries == 0 {
			c.Errorf("%v was gone before it was deleted", one.ID)
		}
		return
	}
}

// check compares the rows in the backends with the answers that the workers got.
func (c *chaos) check() {
	backends := make(map[task.ID]int)
	for _, p := range c.backends {
		rows, err := p.all(c.Context())
		if err != nil {
			c.Fatal(err)
		}
		for _, t := range rows {
			backends[t.ID]++
		}
	}
	for id, n := range backends {
		if n != 1 {
			c.Errorf("%v is in %d backends", id, n)
		}
	}
	for id := range c.fresh {
		if backends[id] != 1 {
			c.Errorf("%v was inserted, and is in %d backends", id, backends[id])
		}
	}
	for ref, n := range c.made {
		if n != 1 {
			c.Errorf("version %v was made %d times", ref, n)
		}
	}
	page, err := c.s.List(c.Context(), storage.ListQuery{Limit: math.MaxInt, Scan: math.MaxInt})
	listed, next := page.Tasks, page.Next
	if err != nil || !next.IsZero() || len(listed) != len(backends) {
		c.Errorf("%d rows are listed of %d: %v", len(listed), len(backends), err)
	}
	for _, t := range c.rows {
		got, err := c.s.Get(c.Context(), t.ID)
		if err != nil {
			c.Fatal(err)
		}
		var sure uint64
		for v := range got.Version {
			sure += uint64(c.made[task.Ref{ID: t.ID, Version: v + 1}])
		}
		if got.Version < 1+sure || got.Version > 1+sure+c.maybe[t.ID] {
			c.Errorf("version %d of %v, though %d changes were made and perhaps %d more", got.Version, t.ID, sure, c.maybe[t.ID])
		}
	}
}
