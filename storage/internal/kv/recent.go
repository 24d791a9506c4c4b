package kv

import "github.com/taskengine/taskengine/engine/task"

// recentRows is how many of the rows changed last are cached. At about 700 bytes a row that is
// some 12 MB at most.
const recentRows = 1 << 14

// heavyRow is the size of headers and error above which a row is not cached.
const heavyRow = 2048

// recent caches the rows changed last, so that the next change of a row need not read it, and an
// insert need not look for a row with its ID. Its invariant: every row of the store with an ID
// greater than floor is in rows, as nil if it must be read.
type recent struct {
	rows  map[task.ID]*row
	ring  []task.ID // the order in which rows were added; a row may be in it twice
	next  int       // the index in the ring to replace next, once it is full
	limit int
	floor task.ID
}

func newRecent(limit int) recent {
	return recent{rows: make(map[task.ID]*row), limit: limit}
}

// lookup returns the row if it is cached, and else whether it may exist.
func (c *recent) lookup(id task.ID) (r *row, maybe bool) {
	r, known := c.rows[id]
	return r, known || id.Compare(c.floor) <= 0
}

// put records that the store has r under id now, or no row if r is nil.
func (c *recent) put(id task.ID, r *row) {
	if r == nil {
		delete(c.rows, id)
		return
	}
	if _, known := c.rows[id]; !known {
		c.remember(id)
	}
	if !r.State.Live() || r.weight() > heavyRow {
		r = nil
	}
	c.rows[id] = r
}

func (c *recent) remember(id task.ID) {
	if len(c.ring) < c.limit {
		c.ring = append(c.ring, id)
		return
	}
	old := c.ring[c.next]
	delete(c.rows, old)
	if old.Compare(c.floor) > 0 {
		c.floor = old
	}
	c.ring[c.next] = id
	c.next = (c.next + 1) % c.limit
}

// weight is the size of the parts of r that have no bound.
func (r *row) weight() int {
	n := len(r.LastError) + len(r.Group) + len(r.Key) + len(r.OrderingKey)
	for k, v := range r.Headers {
		n += len(k) + len(v)
	}
	return n
}
