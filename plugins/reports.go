//go:build linux || darwin

package plugins

import (
	"log/slog"
	"time"

	"github.com/taskengine/taskengine/engine/task"
	"github.com/taskengine/taskengine/plugins/internal/wire"
)

// features are the optional parts of the protocol that a host serves.
var features = []string{"progress", "checkpoint"}

// notes are what the handler of a call has said and nobody has passed on yet: of several
// only the newest. All of it is guarded by the host's mutex.
type notes struct {
	progress   *task.Progress
	checkpoint []byte
	passing    bool    // a goroutine passes them on
	answer     *answer // to be given when all is passed on
}

// note takes in what handlers said of their runs. It is called with mu held.
func (h *Host) note(s *session, frame *wire.FromHandler) {
	for _, p := range frame.GetProgress() {
		if n := h.notesOf(s, p.GetRunId()); n != nil {
			n.progress = &task.Progress{Done: p.GetDone(), Total: p.GetTotal(), Message: p.GetMessage(), At: time.Now()}
		}
	}
	for _, k := range frame.GetCheckpoints() {
		if n := h.notesOf(s, k.GetRunId()); n != nil {
			n.checkpoint = append([]byte{}, k.GetData()...) // not nil, which would be none
		}
	}
}

// notesOf returns the notes of a run, and sees to it that they will be passed on; nil if
// it is not running or nobody wants them.
func (h *Host) notesOf(s *session, run uint64) *notes {
	c := s.running[run]
	if c == nil || c.reporter == nil {
		return nil
	}
	if c.notes == nil {
		c.notes = new(notes)
	}
	if !c.notes.passing {
		c.notes.passing = true
		go h.pass(c)
	}
	return c.notes
}

// pass passes on the notes of c until there are none, and then its answer if that has
// come: a checkpoint is kept before the attempt is over.
func (h *Host) pass(c *call) {
	for {
		h.mu.Lock()
		n := *c.notes
		c.notes.progress, c.notes.checkpoint = nil, nil
		if n.progress == nil && n.checkpoint == nil {
			c.notes.passing = false
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

// deliver answers c, after its notes. It is called with mu held.
func (h *Host) deliver(c *call, a answer) {
	if c.notes != nil && c.notes.passing {
		c.notes.answer = &a
		return
	}
	c.done <- a
}
