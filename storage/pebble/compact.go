package pebble

import (
	"sync"

	"github.com/cockroachdb/pebble/v2"
)

// compactions schedules the library's compactions: as many at a time as the library
// itself allows, which depends on how much there is to compact. It replaces the library's
// own scheduler, which wakes an idle store every 100 ms.
//
// The library asks once for a compaction. If it is refused, it waits to be called, and
// must be called as soon as one more compaction may run. One more may run after these
// events:
//
//   - a compaction ends ([pebble.CompactionGrantHandle.Done]);
//   - a flush ends, which may have raised the number allowed.
//
// No compaction waits forever: one waits only while as many run as are allowed, which is
// at least one, and that one ends. So no ticker is needed. A ticker could only notice a
// little earlier that the number allowed has risen without an event.
type compactions struct {
	db pebble.DBForCompaction // set before any other call

	mu       sync.Mutex
	running  int  // guarded by mu: granted or about to be
	granting bool // guarded by mu: a goroutine is in grant
	again    bool // guarded by mu: that goroutine must look again
	closed   bool // guarded by mu: the library is not called any more

	grants sync.WaitGroup // the goroutine in grant; added to under mu, unless closed
}

var (
	_ pebble.CompactionScheduler   = (*compactions)(nil)
	_ pebble.CompactionGrantHandle = permit{}
)

// Register implements [pebble.CompactionScheduler].
func (c *compactions) Register(_ int, db pebble.DBForCompaction) { c.db = db }

// Unregister implements [pebble.CompactionScheduler]. Compactions that wait do not run any more.
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
		c.again = true // the refusal may be due to an offer that the library declines
		return false, nil
	}
	c.running++
	return true, permit{c}
}

// UpdateGetAllowedWithoutPermission implements [pebble.CompactionScheduler]. The caller holds
// locks that a grant needs, so the grant is made in another goroutine.
func (c *compactions) UpdateGetAllowedWithoutPermission() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.begin() {
		go c.grant()
	}
}

// begin reports whether the caller must call grant. The caller holds mu.
func (c *compactions) begin() bool {
	c.again = true
	if c.closed || c.granting || c.running >= c.db.GetAllowedWithoutPermission() {
		return false
	}
	c.granting = true
	c.grants.Add(1)
	return true
}

// grant starts compactions that wait, as far as allowed. One goroutine at a time is in grant.
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

// offer lets the library start a compaction that waits, and reports whether there was one. The
// caller holds mu, which is released in between: the library's locks come first.
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

// permit is held by a running compaction.
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
