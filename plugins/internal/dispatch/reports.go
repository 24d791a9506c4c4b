package dispatch

import (
	"time"

	"github.com/taskengine/taskengine/plugins/internal/calls"
	"github.com/taskengine/taskengine/plugins/internal/wire"
	"github.com/taskengine/taskengine/task"
)

// Reports are the newest progress and checkpoint of a call, and its checks and reads, that were not forwarded to its reporter.
type Reports[O any] struct {
	Progress   *task.Progress // nil for none
	Checkpoint []byte         // nil for none
	Checks     []Check[O]     // in their order
	Reads      []Read[O]      // likewise
	number     uint64         // of the checkpoint; 0 if it asks for no answer
	from       *Session[O]    // that sent the checkpoint
}

// Check is a question of a session.
type Check[O any] struct {
	*wire.Check
	Rights calls.Rights // of the program
	from   *Session[O]
}

// Read is a read of a document by a session.
type Read[O any] struct {
	*wire.ReadDocument
	Rights calls.Rights // of the program
	from   *Session[O]
}

// reports are the reports of a call, on their way to its reporter. The call is answered after them, so a checkpoint is
// stored before its attempt ends.
type reports[O any] struct {
	newest     Reports[O]
	forwarding bool          // the host takes them until there are none
	answer     *calls.Answer // of the call, to be delivered after the reports
}

// errRunOver is the answer to a checkpoint of a run that the session does not run.
const errRunOver = "the attempt is over"

// addReports stores the progress and checkpoints in a frame. It returns the calls that have reports again.
func (c *Core[O]) addReports(s *Session[O], frame *wire.FromHandler, now time.Time) (reporting []*Call[O]) {
	reportsOf := func(call *Call[O]) *reports[O] {
		if call == nil || call.Reporter == nil {
			return nil
		}
		if call.reports == nil {
			call.reports = new(reports[O])
		}
		if !call.reports.forwarding {
			call.reports.forwarding = true
			reporting = append(reporting, call)
		}
		return call.reports
	}
	for _, p := range frame.GetProgress() {
		if r := reportsOf(s.running[p.GetRunId()]); r != nil {
			r.newest.Progress = &task.Progress{Done: p.GetDone(), Total: p.GetTotal(), Message: p.GetMessage(), At: now}
		}
	}
	for _, k := range frame.GetCheckpoints() {
		call := s.running[k.GetRunId()]
		if r := reportsOf(call); r != nil {
			r.newest.Checkpoint = append([]byte{}, k.GetData()...) // not nil: nil means no checkpoint
			r.newest.number, r.newest.from = k.GetNumber(), s
			continue
		}
		why := ""
		if call == nil {
			why = errRunOver
		}
		s.addStored(k.GetRunId(), k.GetNumber(), why)
	}
	for _, k := range frame.GetChecks() {
		if r := reportsOf(s.running[k.GetRunId()]); r != nil {
			r.newest.Checks = append(r.newest.Checks, Check[O]{k, s.rights, s})
			continue
		}
		s.addChecked(&wire.Checked{RunId: k.GetRunId(), Number: k.GetNumber(), Error: errRunOver})
	}
	for _, k := range frame.GetReads() {
		if r := reportsOf(s.running[k.GetRunId()]); r != nil {
			r.newest.Reads = append(r.newest.Reads, Read[O]{k, s.rights, s})
			continue
		}
		s.addRead(&wire.DocumentRead{RunId: k.GetRunId(), Number: k.GetNumber(), Error: errRunOver})
	}
	return reporting
}

// NextReports removes and returns the newest reports of a call. If there are none, it returns false and delivers the answer
// of the call if it has come.
func (c *Core[O]) NextReports(call *Call[O]) (next Reports[O], more bool) {
	r := call.reports
	next, r.newest = r.newest, Reports[O]{}
	if next.Progress != nil || next.Checkpoint != nil || len(next.Checks)+len(next.Reads) > 0 {
		return next, true
	}
	r.forwarding = false
	if r.answer != nil {
		call.Done <- *r.answer
	}
	return next, false
}

// Stored answers the checkpoint in reports of a call: it is stored, or it is not and why says the reason.
func (c *Core[O]) Stored(call *Call[O], r Reports[O], why string) {
	r.from.addStored(call.Run.GetRunId(), r.number, why)
}

// addStored adds the answer to a checkpoint to the next frame, if it has a number.
func (s *Session[O]) addStored(run, number uint64, why string) {
	if number != 0 && s.connected {
		s.stored = append(s.stored, &wire.Stored{RunId: run, Number: number, Error: why})
		s.Wake()
	}
}

// Checked answers a check.
func (c *Core[O]) Checked(k Check[O], answer *wire.Checked) { k.from.addChecked(answer) }

// addChecked adds the answer to a check to the next frames.
func (s *Session[O]) addChecked(answer *wire.Checked) {
	if s.connected {
		s.checked = append(s.checked, answer)
		s.Wake()
	}
}

// takeChecked removes and returns as many answers to checks as fit into a frame.
func (s *Session[O]) takeChecked() (some []*wire.Checked) {
	for size := 0; len(s.checked) > 0 && size < wire.FrameBytes; {
		for _, r := range s.checked[0].GetRefusals() {
			size += 64 + len(r.GetMessage())
		}
		some, s.checked = append(some, s.checked[0]), s.checked[1:]
	}
	return some
}

// Read answers a read.
func (c *Core[O]) Read(k Read[O], answer *wire.DocumentRead) { k.from.addRead(answer) }

// mostUnsent is how many bytes of documents wait for the writer of a session. A program that does not receive them cannot fill the memory of
// the node.
const mostUnsent = 64 << 20

// errUnread is the answer to a read of a session with too many answers that are not sent.
const errUnread = "the program reads more documents than it receives"

// addRead adds the answer to a read to the next frames.
func (s *Session[O]) addRead(answer *wire.DocumentRead) {
	if !s.connected {
		return
	}
	if s.unsent > mostUnsent {
		answer = &wire.DocumentRead{RunId: answer.RunId, Number: answer.Number, Error: errUnread}
	}
	s.unsent += len(answer.GetData())
	s.documents = append(s.documents, answer)
	s.Wake()
}

// takeRead removes and returns as many answers to reads as fit into a frame.
func (s *Session[O]) takeRead() (some []*wire.DocumentRead) {
	for size := 0; len(s.documents) > 0 && len(some) < wire.FrameMessages && size < wire.FrameBytes; {
		size += len(s.documents[0].GetData())
		s.unsent -= len(s.documents[0].GetData())
		some, s.documents = append(some, s.documents[0]), s.documents[1:]
	}
	return some
}

// deliver answers a call that has ended, after its reports.
func (c *Call[O]) deliver(a calls.Answer) {
	if c.reports != nil && c.reports.forwarding {
		c.reports.answer = &a
		return
	}
	c.Done <- a
}
