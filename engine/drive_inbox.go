package engine

import (
	"sync"

	"github.com/taskengine/taskengine/engine/internal/shell"
	"github.com/taskengine/taskengine/task"
)

// inbox collects what callers and handlers say, so that they do not wait for Engine.mu: the lock of
// the inbox is held for moments only. The goroutine that locks Engine.mu takes what is in the inbox
// first, so the core gets all events in order. The methods that add report whether the inbox was
// empty: then a writer is to be woken.
type inbox struct {
	mu      sync.Mutex   // locked after Engine.mu
	refusal error        // guarded by mu: why submissions are refused; nil while they are accepted
	events  shell.Events // guarded by mu
}

// submit adds s, unless the inbox refuses submissions.
func (in *inbox) submit(s *shell.Submission) (wasEmpty bool, err error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.refusal != nil {
		return false, in.refusal
	}
	wasEmpty = in.events.Len() == 0
	in.events.Submissions = append(in.events.Submissions, s)
	return wasEmpty, nil
}

// end adds the end of an attempt.
func (in *inbox) end(e *shell.Ending) (wasEmpty bool) {
	in.mu.Lock()
	defer in.mu.Unlock()
	wasEmpty = in.events.Len() == 0
	in.events.Endings = append(in.events.Endings, *e)
	return wasEmpty
}

// begin adds that the handler of a row has begun only now.
func (in *inbox) begin(ref task.Ref) (wasEmpty bool) {
	in.mu.Lock()
	defer in.mu.Unlock()
	wasEmpty = in.events.Len() == 0
	in.events.Begun = append(in.events.Begun, ref)
	return wasEmpty
}

// resize adds a new capacity of a pool.
func (in *inbox) resize(r shell.Resize) (wasEmpty bool) {
	in.mu.Lock()
	defer in.mu.Unlock()
	wasEmpty = in.events.Len() == 0
	in.events.Resizes = append(in.events.Resizes, r)
	return wasEmpty
}

// refuse makes submit return why from now on. What is in the inbox remains.
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

// take moves what is in the inbox to e, which is empty.
func (in *inbox) take(e *shell.Events) {
	in.mu.Lock()
	defer in.mu.Unlock()
	*e, in.events = in.events, *e
}
