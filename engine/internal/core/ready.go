package core

import (
	"time"

	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/engine/internal/table"
	"github.com/taskengine/taskengine/task"
)

// Ready has all effects that the shell must produce now. The shell produces the effects in one slice
// in their order. The slices are independent of each other.
type Ready struct {
	Inserts  []*task.Task  // rows to insert, durably, the rows of one submission together; each is answered by Inserted
	Grabs    []task.Change // to make, durably; each is answered by Grabbed
	Relaxed  []task.Change // to make, durably or not; each is answered by Grabbed
	Saves    []Save        // to make, durably; each is answered by Saved
	Runs     []Run         // handlers to call; each is answered by Handled
	Stops    []Stop        // runs to cancel the context of; not answered
	Loads    []table.Load  // rows of queues to read; each is answered by Loaded
	Scans    []table.Scan  // queues to list; each is answered by Scanned
	DueLoads []DueLoad     // due rows to read; each is answered by DueLoaded
	Hints    []task.Hint   // for other nodes, about rows of theirs; not answered
	Keys     []string      // ordering keys without a head, for the store to give one; not answered, see Promoted
	Wants    []Want        // for the handlers of pools; not answered
	Orders   []coord.Order // for the coordinator of limits of the cluster; each is answered by Hold, and replaces earlier ones of its limit
	Draws    []coord.Draw  // for the same; each is answered by Drawn
}

// Save is a change that ends an attempt, or moves a task that does not run.
type Save struct {
	task.Change
	Type   string // of the task
	Remove bool   // delete the row with the change
	moves  bool   // it is of a task that does not run, see Core.move

	// Follow has rows to insert if and only if the change is made. Each is answered by Inserted, after
	// Saved, if it is made.
	Follow []*task.Task

	// Documents has writes of documents to make if and only if the change is made. If one of them conflicts, the change is not made,
	// and the save is answered by Conflicted. Else is the save that follows then.
	Documents []task.DocumentChange
	Else      *Save

	// Head is a grab of the next head of the ordering key of the task, to be made with the change if the
	// store can; nil for none. It is answered by GrabbedHead, after Saved.
	Head *HeadGrab
}

// HeadGrab is a grab of a task of this queue and priority.
type HeadGrab struct {
	Queue    task.Queue
	Priority uint8
	Grab     task.Change // without a Ref
}

// Size returns how many rows the save writes, and the bytes of their payloads, results and checkpoints.
func (s *Save) Size() (rows, bytes int) {
	bytes = s.Bytes()
	for _, t := range s.Follow {
		bytes += len(t.Payload)
	}
	for i := range s.Documents {
		bytes += len(s.Documents[i].Row.Payload)
	}
	return 1 + len(s.Follow) + len(s.Documents), bytes
}

// Moves reports whether the change is of a task that does not run: it was waiting or submitted.
func (s *Save) Moves() bool { return s.moves }

// Run asks to call the handler of a task that was grabbed.
type Run struct {
	ID       task.ID
	Type     string
	Deadline time.Time // when the core will stop it; zero is never
	Task     *task.Task

	NeedsPermits bool // it counts for a limit of the cluster
}

// Stop asks to cancel the context of a run.
type Stop struct {
	ID    task.ID
	Cause error
}

// DueLoad asks for the rows of a state that have a time, in the order of it: those after
// the row at (AfterAt, AfterID) and not after Before, at most Limit.
type DueLoad struct {
	State   task.State
	AfterAt time.Time // zero: from the first
	AfterID task.ID
	Before  time.Time // zero: to the last
	Limit   int
	Ahead   bool // due rows behind the ones in memory: a look ahead, see ahead.go
}

// Take moves all effects into r, and reuses the buffers of r for the next ones: it does not allocate
// once the buffers have grown.
func (c *Core) Take(r *Ready) {
	if !c.draining {
		c.ready.Loads = c.table.TakeLoads(c.ready.Loads)
		if s, ok := c.table.TakeScan(); ok {
			c.ready.Scans = append(c.ready.Scans, s)
		}
		c.timers.waiting.refill(&c.ready)
		c.timers.submitted.refill(&c.ready)
		if l, ok := c.timers.ahead.load(); ok {
			c.ready.DueLoads = append(c.ready.DueLoads, l)
		}
	}
	c.want()
	c.ready.Orders, c.ready.Draws = c.table.TakeOrders(c.ready.Orders, c.ready.Draws)
	r.reset()
	c.ready, *r = *r, c.ready
}

func (r *Ready) reset() {
	clear(r.Inserts)
	clear(r.Runs)
	clear(r.Saves)
	clear(r.Keys)
	r.Inserts, r.Grabs, r.Relaxed, r.Saves, r.Runs = r.Inserts[:0], r.Grabs[:0], r.Relaxed[:0], r.Saves[:0], r.Runs[:0]
	r.Stops, r.Loads, r.Scans, r.DueLoads = r.Stops[:0], r.Loads[:0], r.Scans[:0], r.DueLoads[:0]
	r.Hints, r.Keys, r.Wants = r.Hints[:0], r.Keys[:0], r.Wants[:0]
	r.Orders, r.Draws = r.Orders[:0], r.Draws[:0]
}
