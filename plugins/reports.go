//go:build linux || darwin

package plugins

import (
	"log/slog"
	"time"

	"github.com/taskengine/taskengine/engine/task"
	"github.com/taskengine/taskengine/plugins/internal/wire"
)

// features are the optional parts of the protocol that a host supports.
var features = []string{"progress", "checkpoint", "rerun", "ended"}

// reports are the newest progress and checkpoint of a call that were not forwarded to its reporter yet. The host's mutex
// guards all fields.
type reports struct {
	progress   *task.Progress
	checkpoint []byte
	forwarding bool    // a goroutine runs forwardReports
	answer     *answer // to be delivered after the reports
}

// addReports stores the progress and checkpoints in a frame. mu must be held.
func (h *Host) addReports(s *session, frame *wire.FromHandler) {
	for _, p := range frame.GetProgress() {
		if n := h.reportsOf(s, p.GetRunId()); n != nil {
			n.progress = &task.Progress{Done: p.GetDone(), Total: p.GetTotal(), Message: p.GetMessage(), At: time.Now()}
		}
	}
	for _, k := range frame.GetCheckpoints() {
		if n := h.reportsOf(s, k.GetRunId()); n != nil {
			n.checkpoint = append([]byte{}, k.GetData()...) // not nil: nil means no checkpoint
		}
	}
}

// reportsOf returns the reports of a run, which will be forwarded. It returns nil if the run is not running or has no
// reporter. mu must be held.
func (h *Host) reportsOf(s *session, run uint64) *reports {
	c := s.running[run]
	if c == nil || c.reporter == nil {
		return nil
	}
	if c.reports == nil {
		c.reports = new(reports)
	}
	if !c.reports.forwarding {
		c.reports.forwarding = true
		go h.forwardReports(c)
	}
	return c.reports
}

// forwardReports forwards the reports of c until there are none, and then delivers its answer if it has come. So a
// checkpoint is stored before the attempt ends.
func (h *Host) forwardReports(c *call) {
	for {
		h.mu.Lock()
		n := *c.reports
		c.reports.progress, c.reports.checkpoint = nil, nil
		if n.progress == nil && n.checkpoint == nil {
			c.reports.forwarding = false
			h.mu.Unlock()
			if n.answer != nil {
				c.done <- *n.answer
			}
			return
		}
		h.mu.Unlock()
		if n.progress != nil {
			c.reporter.Progress(*n.progress)
		}
		if n.checkpoint != nil {
			if err := c.reporter.Checkpoint(n.checkpoint); err != nil {
				slog.New(h.programLog).Warn("a checkpoint is not kept", "task_id", c.id().String(), "error", err)
			}
		}
	}
}

// deliver answers c after its reports. mu must be held.
func (h *Host) deliver(c *call, a answer) {
	if c.reports != nil && c.reports.forwarding {
		c.reports.answer = &a
		return
	}
	c.done <- a
}
