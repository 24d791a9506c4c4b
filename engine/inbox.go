package engine

import (
	"sync"

	"github.com/taskengine/taskengine/engine/task"
)

// inbox collects submissions, verdicts and other events for the core, so that callers and
// handlers do not wait for Engine.mu: the lock of the inbox is held for moments only. The
// goroutine that locks Engine.mu drains the inbox first, so the core gets all events in order.
type inbox struct {
	mu          sync.Mutex
	refusal     error         // guarded by mu: why submissions are refused; nil while they are accepted
	submissions []*submission // guarded by mu
	endings     []ending      // guarded by mu
	begun       []*attempt    // guarded by mu: attempts whose handlers have begun late
	resizes     []resize      // guarded by mu: of pools, in order
}

// ending is the end of an attempt.
type ending struct {
	attempt *attempt
	verdict task.Verdict
	said    *task.Progress // the last progress of the attempt, if it may not be written yet; nil if there is none
}

// submit appends s, unless the inbox refuses submissions. wake reports whether the inbox was
// empty: the caller must wake a writer then.
func (in *inbox) submit(s *submission) (wake bool, err error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.refusal != nil {
		return false, in.refusal
	}
	wake = in.size() == 0
	in.submissions = append(in.submissions, s)
	return wake, nil
}

// end appends the verdict of an attempt; wake is as in submit.
func (in *inbox) end(a *attempt, v task.Verdict, said *task.Progress) (wake bool) {
	in.mu.Lock()
	defer in.mu.Unlock()
	wake = in.size() == 0
	in.endings = append(in.endings, ending{a, v, said})
	return wake
}

// begin appends that the handler of a has begun only now; wake is as in submit.
func (in *inbox) begin(a *attempt) (wake bool) {
	in.mu.Lock()
	defer in.mu.Unlock()
	wake = in.size() == 0
	in.begun = append(in.begun, a)
	return wake
}

// resize appends the new capacity of a pool; wake is as in submit.
func (in *inbox) resize(r resize) (wake bool) {
	in.mu.Lock()
	defer in.mu.Unlock()
	wake = in.size() == 0
	in.resizes = append(in.resizes, r)
	return wake
}

// refuse makes submit return why from now on. Events that are in the inbox remain.
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

// count returns the number of events in the inbox.
func (in *inbox) count() int {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.size()
}

// size is count for callers that hold mu.
func (in *inbox) size() int {
	return len(in.submissions) + len(in.endings) + len(in.begun) + len(in.resizes)
}

// drainInbox passes the events in the inbox to the core. It is called with mu held, before
// any other event is passed to the core.
func (e *Engine) drainInbox() {
	in := &e.inbox
	in.mu.Lock()
	e.newSubmissions, in.submissions = in.submissions, e.newSubmissions
	e.newEndings, in.endings = in.endings, e.newEndings
	begun, resizes := in.begun, in.resizes
	in.begun, in.resizes = nil, nil
	in.mu.Unlock()
	if len(e.newSubmissions)+len(e.newEndings)+len(begun)+len(resizes) == 0 {
		return
	}
	now := e.clock.now()
	for _, a := range begun {
		if e.attempts[a.ID] == a {
			e.core.Began(now, a.ID)
		}
	}
	for _, r := range resizes {
		e.resized(now, r)
	}
	for i := range e.newEndings { // first: a slot that is freed may serve a submission
		end := &e.newEndings[i]
		delete(e.attempts, end.attempt.ID)
		if end.said != nil && e.core.Counts(end.attempt.ref) {
			e.lastProgress[end.attempt.ref] = *end.said
		}
		e.concludes(now, end.attempt, end.verdict)
	}
	for _, s := range e.newSubmissions {
		for _, t := range s.rows {
			e.core.Submit(now, t)
		}
	}
	e.pending.submissions = append(e.pending.submissions, e.newSubmissions...)
	clear(e.newSubmissions)
	clear(e.newEndings)
	e.newSubmissions, e.newEndings = e.newSubmissions[:0], e.newEndings[:0]
}
