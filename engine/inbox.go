package engine

import (
	"sync"

	"github.com/taskengine/taskengine/engine/task"
)

// inbox is where callers and handlers leave what they have to say and go on: its lock is
// held for moments, whatever the core is busy with. Whoever enters the core listens to
// it first, so the core hears of everything in order.
type inbox struct {
	mu          sync.Mutex
	refusal     error         // guarded by mu: why nothing new is accepted; nil while it is
	submissions []*submission // guarded by mu
	endings     []ending      // guarded by mu
	begun       []*attempt    // guarded by mu: those whose handlers had them wait
	resizes     []resize      // guarded by mu: of pools, in order
}

// ending is what came of an attempt.
type ending struct {
	attempt *attempt
	verdict task.Verdict
	said    *task.Progress // of the attempt, which may not be written yet; nil if there is none
}

// submit leaves s, unless nothing is accepted any more. wake says that nothing had been
// left before: somebody must be told to look.
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

// end leaves what came of an attempt; wake is as in submit.
func (in *inbox) end(a *attempt, v task.Verdict, said *task.Progress) (wake bool) {
	in.mu.Lock()
	defer in.mu.Unlock()
	wake = in.size() == 0
	in.endings = append(in.endings, ending{a, v, said})
	return wake
}

// begin leaves word that the handler of a has begun only now; wake is as in submit.
func (in *inbox) begin(a *attempt) (wake bool) {
	in.mu.Lock()
	defer in.mu.Unlock()
	wake = in.size() == 0
	in.begun = append(in.begun, a)
	return wake
}

// resize leaves word of the capacity of a pool; wake is as in submit.
func (in *inbox) resize(r resize) (wake bool) {
	in.mu.Lock()
	defer in.mu.Unlock()
	wake = in.size() == 0
	in.resizes = append(in.resizes, r)
	return wake
}

// refuse has nothing new accepted from now on. What was left before is still heard.
func (in *inbox) refuse(why error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.refusal = why
}

// accepting returns why nothing new is accepted, or nil.
func (in *inbox) accepting() error {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.refusal
}

// count returns how much was left.
func (in *inbox) count() int {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.size()
}

// size is count for those who hold mu.
func (in *inbox) size() int {
	return len(in.submissions) + len(in.endings) + len(in.begun) + len(in.resizes)
}

// listen tells the core what was left in the inbox. It is called with mu held, before
// anything else is told to the core.
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
	for i := range e.newEndings { // first: a slot that is free again may serve a submission
		end := &e.newEndings[i]
		delete(e.attempts, end.attempt.ID)
		if end.said != nil && e.core.Counts(end.attempt.ref) {
			e.lastProgress[end.attempt.ref] = *end.said
		}
		e.concludes(now, end.attempt, end.verdict)
	}
	for _, s := range e.newSubmissions {
		for _, t := range s.rows {
			e.core.Submit(now, t, true)
		}
	}
	e.pending.submissions = append(e.pending.submissions, e.newSubmissions...)
	clear(e.newSubmissions)
	clear(e.newEndings)
	e.newSubmissions, e.newEndings = e.newSubmissions[:0], e.newEndings[:0]
}
