package kv

import "github.com/taskengine/taskengine/task"

// recentRows is how many of the rows changed last are cached. At about 700 bytes a row that is
// some 12 MB at most.
const recentRows = 1 << 14

// heavyRow is the size of headers and error above which a row is not cached.
const heavyRow = 2048

// generations are the parts in which the cache forgets. To forget many at once costs less than one by one.
const generations = 4

// recent caches the rows changed last, so that the next change of a row need not read it, and an
// insert need not look for a row with its ID. Its invariant: every row of the store has an ID that is
// known or not greater than floor.
type recent struct {
	rows   map[task.ID]cached // the rows that may change again: few, if tasks end soon
	known  [generations]known // the youngest first
	turn   uint64             // how often a generation was forgotten
	limit  int                // of IDs in a generation
	floor  task.ID
	newest task.ID // none that is known is greater
}

// cached is a row of a generation.
type cached struct {
	*row
	turn uint64 // recent.turn when it was cached
}

// known are the IDs of a generation.
type known struct {
	ids    map[task.ID]struct{} // without pointers, so that the garbage collector does not read it
	newest task.ID              // none of ids is greater
}

// newRecent returns a cache of at most this many rows, or one for each generation if that is more.
func newRecent(limit int) recent {
	c := recent{rows: make(map[task.ID]cached), limit: max(1, limit/generations)}
	for i := range c.known {
		c.known[i].ids = make(map[task.ID]struct{})
	}
	return c
}

// isNew reports whether id is greater than the ID of every row, as IDs of new tasks are.
func (c *recent) isNew(id task.ID) bool {
	return id.Compare(c.newest) > 0 && id.Compare(c.floor) > 0
}

// lookup returns the row if it is cached, and else whether it may exist.
func (c *recent) lookup(id task.ID) (r *row, maybe bool) {
	if c.isNew(id) {
		return nil, false
	}
	if r, ok := c.rows[id]; ok {
		return r.row, true
	}
	if id.Compare(c.floor) <= 0 {
		return nil, true
	}
	for i := range c.known {
		if _, ok := c.known[i].ids[id]; ok {
			return nil, true
		}
	}
	return nil, false
}

// put records that the store has r under id now, or no row if r is nil. It returns the row that was
// cached before, nil if there was none, and whether r is cached now.
func (c *recent) put(id task.ID, r *row) (old *row, kept bool) {
	var before cached
	if !c.isNew(id) {
		before = c.rows[id]
	}
	switch {
	case r == nil:
		if before.row != nil {
			delete(c.rows, id)
		}
		for i := range c.known { // only the youngest generation that knows the row: an older one costs at most a read
			ids := c.known[i].ids
			if _, isKnown := ids[id]; isKnown {
				delete(ids, id)
				break
			}
		}
		return before.row, false
	case before.row == nil || before.turn != c.turn:
		c.remember(id)
	}
	if kept = r.State.Live() && r.weight() <= heavyRow; kept {
		c.rows[id] = cached{r, c.turn}
	} else if before.row != nil {
		delete(c.rows, id)
	}
	return before.row, kept
}

// remember makes id known.
func (c *recent) remember(id task.ID) {
	if len(c.known[0].ids) >= c.limit {
		c.forget()
	}
	young := &c.known[0]
	young.ids[id] = struct{}{}
	if id.Compare(young.newest) > 0 {
		young.newest = id
	}
	if id.Compare(c.newest) > 0 {
		c.newest = id
	}
}

// forget forgets the oldest generation and begins a new one.
func (c *recent) forget() {
	oldest := c.known[generations-1]
	copy(c.known[1:], c.known[:])
	if oldest.newest.Compare(c.floor) > 0 {
		c.floor = oldest.newest
	}
	clear(oldest.ids)
	c.known[0] = known{ids: oldest.ids}
	c.turn++
	for id, r := range c.rows {
		if r.turn+generations <= c.turn {
			delete(c.rows, id)
		}
	}
}

// weight is the size of the parts of r that have no bound.
func (r *row) weight() int {
	n := len(r.LastError) + len(r.Group) + len(r.Key) + len(r.OrderingKey)
	for k, v := range r.Headers {
		n += len(k) + len(v)
	}
	return n
}
