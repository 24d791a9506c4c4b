package core

import (
	"time"

	"github.com/taskengine/taskengine/engine/internal/table"
	"github.com/taskengine/taskengine/engine/task"
)

// Ready is everything that the shell must now do. The order within one slice is the
// order to do it in; the slices are independent of each other.
type Ready struct {
	Grabs    []task.Change // to be swapped, durably; each is answered by Grabbed
	Relaxed  []task.Change // to be swapped, durably or not; each is answered by Grabbed
	Saves    []Save        // to be swapped, durably; each is answered by Saved
	Runs     []Run         // to be handled; each is answered by Handled
	Stops    []Stop        // runs whose context is to be cancelled; no answer but Handled
	Loads    []table.Load  // leaves to be read from the store; answered by Loaded
	Scans    []table.Scan  // leaves to be found in the store; answered by Scanned
	DueLoads []DueLoad     // due rows to be read from the store; answered by Looked
	Hints    []task.Hint   // what rows have become that are other nodes', for those to know; no answer
	Wants    []Want        // what to tell the handlers of pools; no answer
}

// Save is a change that ends an attempt, or moves a task that does not run.
type Save struct {
	task.Change
	Remove bool // delete the row with it
	moves  bool // of a task that does not run: the agenda waits for it
}

// Run is an attempt to be made: call the handler for the task that was grabbed.
type Run struct {
	ID       task.ID
	Type     string
	Deadline time.Time // when it will be told to stop; zero is never
	Task     *task.Task
}

// Stop tells to cancel a run.
type Stop struct {
	ID    task.ID
	Cause error
}

// DueLoad asks for the rows of a state that have a time, in the order of it: those after
// the row at (AfterAt, AfterID), at most Limit.
type DueLoad struct {
	State   task.State
	AfterAt time.Time // zero: from the first
	AfterID task.ID
	Limit   int
}

// Take moves everything that is to be done into r, and r's old buffers back for the
// next time: taking allocates nothing once the buffers have grown.
func (c *Core) Take(r *Ready) {
	if !c.draining {
		c.ready.Loads = c.table.TakeLoads(c.ready.Loads)
		if s, ok := c.table.TakeScan(); ok {
			c.ready.Scans = append(c.ready.Scans, s)
		}
		c.timers.waiting.refill(&c.ready)
		c.timers.submitted.refill(&c.ready)
	}
	c.want()
	r.reset()
	c.ready, *r = *r, c.ready
}

func (r *Ready) reset() {
	clear(r.Runs)
	clear(r.Saves)
	r.Grabs, r.Relaxed, r.Saves, r.Runs = r.Grabs[:0], r.Relaxed[:0], r.Saves[:0], r.Runs[:0]
	r.Stops, r.Loads, r.Scans, r.DueLoads = r.Stops[:0], r.Loads[:0], r.Scans[:0], r.DueLoads[:0]
	r.Hints, r.Wants = r.Hints[:0], r.Wants[:0]
}
