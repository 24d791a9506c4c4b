package pebble

import (
	"sync"

	"github.com/cockroachdb/pebble/v2"
)

// compactions decides which of the library's compactions may run: as many at a time as
// the library itself allows, which depends on how much there is to compact. It replaces
// the library's own scheduler, whose ticker of 100 ms is all that wakes an idle store.
//
// The library asks once for a compaction. If the answer is no, it waits to be called,
// and must be called as soon as one more may run. These are the events after which one
// more may:
//
//   - a compaction ends ([pebble.CompactionGrantHandle.Done]);
//   - a flush ends, which may have raised what is allowed.
//
// Nothing waits forever, for one waits only while as many run as are allowed, which is
// at least one, and that one ends. So no ticker is needed: all that one could add is to
// notice a little earlier what no event tells, that more is allowed than before.
type compactions struct {
	db pebble.DBForCompaction // set before any other call

	mu       sync.Mutex
	running  int  // guarded by mu: granted or about to be
	granting bool // guarded by mu: somebody is in grant
	again    bool // guarded by mu: things have changed since he looked
	closed   bool // guarded by mu: the library is not called any more

	grants sync.WaitGroup // the one in grant; added to under mu, and not once closed
}

var (
	_ pebble.CompactionScheduler   = (*compactions)(nil)
	_ pebble.CompactionGrantHandle = permit{}
)

// Register implements [pebble.CompactionScheduler].
func (c *compactions) Register(_ int, db pebble.DBForCompaction) { c.db = db }

// Unregister implements [pebble.CompactionScheduler]. Compactions that wait never run.
func (c *compactions) Unregister() {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.grants.Wait()
}

// TrySchedule implements [pebble.CompactionScheduler].
func (c *compactions) TrySchedule() (bool, pebble.CompactionGrantHandle) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return false, nil
	}
	if c.running >= c.db.GetAllowedWithoutPermission() {
		c.again = true // what it was refused for may be a grant that nobody takes
		return false, nil
	}
	c.running++
	return true, permit{c}
}

// UpdateGetAllowedWithoutPermission implements [pebble.CompactionScheduler]. The caller
// holds the locks that a grant needs, so that the grant has to be made elsewhere.
func (c *compactions) UpdateGetAllowedWithoutPermission() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.begin() {
		go c.grant()
	}
}

// begin reports whether the caller is to call grant. The caller holds mu.
func (c *compactions) begin() bool {
	c.again = true
	if c.closed || c.granting || c.running >= c.db.GetAllowedWithoutPermission() {
		return false
	}
	c.granting = true
	c.grants.Add(1)
	return true
}

// grant lets those run that wait, as far as allowed. Only one goroutine is in here.
func (c *compactions) grant() {
	defer c.grants.Done()
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.again {
		c.again = false
		for !c.closed && c.running < c.db.GetAllowedWithoutPermission() && c.offer() {
		}
	}
	c.granting = false
}

// offer reports whether the library has begun a compaction that waited. The caller holds
// mu, which is released meanwhile: the library's locks come first.
func (c *compactions) offer() bool {
	c.running++
	c.mu.Unlock()
	taken := c.db.Schedule(permit{c})
	c.mu.Lock()
	if !taken {
		c.running--
	}
	return taken
}

// permit is what a compaction holds that runs.
type permit struct{ c *compactions }

// Started implements [pebble.CompactionGrantHandle].
func (permit) Started() {}

// MeasureCPU implements [pebble.CompactionGrantHandle].
func (permit) MeasureCPU(pebble.CompactionGoroutineKind) {}

// CumulativeStats implements [pebble.CompactionGrantHandle].
func (permit) CumulativeStats(pebble.CompactionGrantHandleStats) {}

// Done implements [pebble.CompactionGrantHandle].
func (p permit) Done() {
	c := p.c
	c.mu.Lock()
	c.running--
	grant := c.begin()
	c.mu.Unlock()
	if grant {
		c.grant()
	}
}
