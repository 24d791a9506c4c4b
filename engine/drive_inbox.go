package engine

import (
	"sync"

	"github.com/taskengine/taskengine/engine/internal/shell"
	"github.com/taskengine/taskengine/internal/wakeup"
	"github.com/taskengine/taskengine/task"
)

// inbox collects the events of callers and handlers, so that they do not wait for Engine.mu: the lock of
// the inbox is held for moments only. The goroutine that locks Engine.mu takes the contents of the inbox
// first, so the core gets all events in order.
type inbox struct {
	arrived wakeup.Signal // set when the inbox is not empty any more: with one lane that wakes its writer; read only
	free    sync.Pool     // of *shell.Submission, reused for their channels

	mu      sync.Mutex   // locked after Engine.mu
	refusal error        // guarded by mu: why submissions are refused; nil while they are accepted
	events  shell.Events // guarded by mu
}

// submission returns a submission without rows. It belongs to the caller until [inbox.reuse].
func (in *inbox) submission() *shell.Submission {
	if s, ok := in.free.Get().(*shell.Submission); ok {
		return s
	}
	return &shell.Submission{Done: make(chan error, 1)}
}

// reuse takes back a submission of which the caller has received Done.
func (in *inbox) reuse(s *shell.Submission) {
	s.Rows, s.Terms, s.Inserted = nil, nil, nil
	in.free.Put(s)
}

// submit adds s, unless the inbox refuses submissions.
func (in *inbox) submit(s *shell.Submission) error {
	in.mu.Lock()
	if err := in.refusal; err != nil {
		in.mu.Unlock()
		return err
	}
	wasEmpty := in.events.Len() == 0
	in.events.Submissions = append(in.events.Submissions, s)
	in.added(wasEmpty)
	return nil
}

// end adds the end of an attempt.
func (in *inbox) end(e *shell.Ending) {
	in.mu.Lock()
	wasEmpty := in.events.Len() == 0
	in.events.Endings = append(in.events.Endings, *e)
	in.added(wasEmpty)
}

// begin adds that the handler of a row has begun only now.
func (in *inbox) begin(ref task.Ref) {
	in.mu.Lock()
	wasEmpty := in.events.Len() == 0
	in.events.Begun = append(in.events.Begun, ref)
	in.added(wasEmpty)
}

// resize adds a new capacity of a pool.
func (in *inbox) resize(r shell.Resize) {
	in.mu.Lock()
	wasEmpty := in.events.Len() == 0
	in.events.Resizes = append(in.events.Resizes, r)
	in.added(wasEmpty)
}

// added unlocks mu after an event was added, and sets arrived if the inbox was empty before.
func (in *inbox) added(wasEmpty bool) {
	in.mu.Unlock()
	if wasEmpty {
		in.arrived.Set()
	}
}

// refuse makes submit return why from now on. The contents of the inbox remain.
func (in *inbox) refuse(why error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.refusal = why
}

// accepting returns why submissions are refused, or nil.
func (in *inbox) accepting() error {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.refusal
}

// count returns how much is in the inbox.
func (in *inbox) count() int {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.events.Len()
}

// take moves the content of the inbox to e, which is empty.
func (in *inbox) take(e *shell.Events) {
	in.mu.Lock()
	defer in.mu.Unlock()
	*e, in.events = in.events, *e
}
