package calls

import (
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/taskengine/taskengine/plugins/internal/wire"
	"github.com/taskengine/taskengine/task"
)

// Features are the optional parts of the protocol that hosts support.
var Features = []string{"progress", "checkpoint", "rerun", "ended", "children", "wait", "family", "signals"}

// reports are the newest progress and checkpoint of a call that were not forwarded to its reporter yet. The host's mutex
// guards all fields.
type reports[S any] struct {
	progress   *task.Progress
	checkpoint []byte
	number     uint64  // of the checkpoint; 0 if it asks for no answer
	from       S       // the session that sent the checkpoint
	forwarding bool    // a goroutine runs Forwarder.run
	answer     *Answer // to be delivered after the reports
}

// Forwarder forwards the reports of the calls of a host to their reporters, and answers calls after that. So a
// checkpoint is stored before its attempt ends.
type Forwarder[S any] struct {
	Mu     sync.Locker                          // the host's mutex
	Log    *slog.Logger                         // of events that handlers cause
	Answer func(session S, answer *wire.Stored) // sends the answer to a checkpoint to a session. Mu is held
}

// errRunOver is the answer to a checkpoint of a run that a host does not know, or that it has answered.
const errRunOver = "the attempt is over"

// Add stores the progress and checkpoints in a frame of a session, which running finds the calls of. Mu must be held.
func (f *Forwarder[S]) Add(frame *wire.FromHandler, from S, running map[uint64]*Call[S]) {
	for _, p := range frame.GetProgress() {
		if n := f.reportsOf(running[p.GetRunId()]); n != nil {
			n.progress = &task.Progress{Done: p.GetDone(), Total: p.GetTotal(), Message: p.GetMessage(), At: time.Now()}
		}
	}
	for _, k := range frame.GetCheckpoints() {
		c := running[k.GetRunId()]
		if n := f.reportsOf(c); n != nil {
			n.checkpoint = append([]byte{}, k.GetData()...) // not nil: nil means no checkpoint
			n.number, n.from = k.GetNumber(), from
			continue
		}
		why := ""
		if c == nil {
			why = errRunOver
		}
		f.answer(from, k.GetRunId(), k.GetNumber(), why)
	}
}

// reportsOf returns the reports of a call, which will be forwarded. It returns nil if there is no call or it has no
// reporter. Mu must be held.
func (f *Forwarder[S]) reportsOf(c *Call[S]) *reports[S] {
	if c == nil || c.Reporter == nil {
		return nil
	}
	if c.reports == nil {
		c.reports = new(reports[S])
	}
	if !c.reports.forwarding {
		c.reports.forwarding = true
		go f.run(c)
	}
	return c.reports
}

// run forwards the reports of c until there are none, and then delivers its answer if it has come.
func (f *Forwarder[S]) run(c *Call[S]) {
	for {
		f.Mu.Lock()
		n := *c.reports
		c.reports.progress, c.reports.checkpoint = nil, nil
		if n.progress == nil && n.checkpoint == nil {
			c.reports.forwarding = false
			f.Mu.Unlock()
			if n.answer != nil {
				c.Done <- *n.answer
			}
			return
		}
		f.Mu.Unlock()
		if n.progress != nil {
			c.Reporter.Progress(*n.progress)
		}
		if n.checkpoint != nil {
			why := ""
			if err := c.Reporter.Checkpoint(n.checkpoint); err != nil {
				f.Log.Warn("a checkpoint is not kept", "task_id", c.ID().String(), "error", err)
				why = err.Error()
				why = strings.ToValidUTF8(why[:min(len(why), wire.MaxErrorBytes)], "\uFFFD")
			}
			f.Mu.Lock()
			f.answer(n.from, c.Run.GetRunId(), n.number, why)
			f.Mu.Unlock()
		}
	}
}

// answer answers a checkpoint that has a number. Mu must be held.
func (f *Forwarder[S]) answer(session S, run, number uint64, why string) {
	if number != 0 {
		f.Answer(session, &wire.Stored{RunId: run, Number: number, Error: why})
	}
}

// Hold has c answered by the forwarder after its reports, and reports false if there are none and the host is to answer
// it. Mu must be held.
func (c *Call[S]) Hold(answer func() Answer) bool {
	if c.reports == nil || !c.reports.forwarding {
		return false
	}
	a := answer()
	c.reports.answer = &a
	return true
}

// Deliver answers c after its reports. Mu must be held.
func (c *Call[S]) Deliver(a Answer) {
	if !c.Hold(func() Answer { return a }) {
		c.Done <- a
	}
}
