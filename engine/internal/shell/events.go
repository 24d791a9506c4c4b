package shell

import (
	"time"

	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

// Events are the events of callers and handlers, in their order.
type Events struct {
	Submissions []*Submission
	Endings     []Ending
	Begun       []task.Ref // rows that their handlers have begun late
	Resizes     []Resize   // of pools
}

// Len returns how many events there are.
func (e *Events) Len() int {
	return len(e.Submissions) + len(e.Endings) + len(e.Begun) + len(e.Resizes)
}

// Reset empties e and keeps its memory.
func (e *Events) Reset() {
	e.Submissions, e.Endings, e.Begun, e.Resizes = clean(e.Submissions), clean(e.Endings), clean(e.Begun), clean(e.Resizes)
}

// Submission is a request to add tasks that waits for its answer.
type Submission struct {
	Rows     []*task.Task       // to insert; they belong to the Shell from Submit on
	Terms    []storage.Terms    // for each row, as in [storage.Batch]; nil for none. Rows with NoPlace need no room in backlogs
	Inserted []storage.Inserted // by index into Rows, when the answer is nil
	Done     chan error         // of capacity 1; gets the answer
	Waits    bool               // it waits for room in backlogs that pause their sources
	For      task.ID            // the task that adds the rows by its handler: a place is kept for it instead; zero if there is none

	left   int     // rows that are not answered
	err    error   // why some of them were not inserted
	claims []claim // its places in backlogs
	place  *place  // where it waits for room; nil if it does not
}

// Ending is the end of an attempt.
type Ending struct {
	Ref      task.Ref // the row that it ran
	Type     string
	Verdict  task.Verdict
	Progress *task.Progress // the last progress of the attempt, if it may not be written yet; nil if there is none
	Finish   *Finish        // the transaction in which the handler finished the task, if it is not known to have committed
}

// Resize is a change of the number of tasks that the handler of a pool can run.
type Resize struct {
	Pool     string
	Capacity task.Capacity
}

// Pass passes events to the core. The caller does so before it passes any other event, so that the
// core gets all events in their order.
func (s *Shell) Pass(now time.Time, e *Events) {
	for _, ref := range e.Begun {
		s.core.Began(now, ref)
	}
	for _, r := range e.Resizes {
		s.core.Resize(now, r.Pool, r.Capacity.Slots, r.Capacity.More)
		s.capacities[r.Pool] = r.Capacity
	}
	for i := range e.Endings { // first: a slot that is freed may serve a submission
		s.end(now, &e.Endings[i])
	}
	for _, sub := range e.Submissions {
		if len(s.backlogs) > 0 {
			full, waits := s.admit(now, sub)
			if full != nil {
				s.effects.Replies = append(s.effects.Replies, Reply{Submission: sub, Err: full})
			}
			if full != nil || waits {
				continue
			}
		}
		s.accept(now, sub)
	}
	s.serve(now)
}

// accept passes the rows of a submission to the core.
func (s *Shell) accept(now time.Time, sub *Submission) {
	sub.left, sub.err = len(sub.Rows), nil
	for _, t := range sub.Rows {
		s.core.Submit(now, t)
	}
	s.submitted = append(s.submitted, sub)
}
