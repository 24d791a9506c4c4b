package schedule

import (
	"slices"
	"time"

	"github.com/taskengine/taskengine/task"
)

// State is how far a schedule has come.
type State struct {
	Decided time.Time   `json:"decided,omitzero"`  // all times up to this one are decided; zero before the first run
	Waiting []time.Time `json:"waiting,omitempty"` // times with tasks that wait for the end of an earlier one, the oldest first
	Running []Fire      `json:"running,omitempty"` // the fires with tasks that had not ended at the last look
	Fired   time.Time   `json:"fired,omitzero"`    // when a task of the calendar was last added
	Orders  []Order     `json:"orders,omitempty"`  // orders that no run has carried out yet
	Paused  *Pause      `json:"paused,omitempty"`  // nil if the schedule is not paused
	Deleted bool        `json:"deleted,omitempty"` // the schedule does not fire, and only an Apply can revive it

	Edits      uint64 `json:"edits,omitempty"`      // how many orders have changed the definition or deleted the schedule
	Last       Fire   `json:"last,omitzero"`        // the newest fire
	Fires      uint64 `json:"fires,omitempty"`      // how many tasks were added
	Missed     uint64 `json:"missed,omitempty"`     // times that were missed and not caught up with, see CountedMisses
	Overlapped uint64 `json:"overlapped,omitempty"` // times that were left out because of an earlier task

	Copy *Copy `json:"copy,omitempty"` // in the store of a node: of a schedule that is [Shared]; otherwise nil
}

// lookAgain returns when a schedule that has looked at a time whether the task has ended that its next one waits for looks again:
// after a twentieth of the time since that was added, and after 1 s to 10 s. It is the zero time if none waits.
func (s *State) lookAgain(looked time.Time) time.Time {
	if len(s.Waiting) == 0 {
		return time.Time{}
	}
	var since time.Duration
	if !s.Fired.IsZero() {
		since = looked.Sub(s.Fired)
	}
	return looked.Add(min(max(since/20, time.Second), 10*time.Second))
}

// CountedMisses is how many missed times are counted after one pause at most.
const CountedMisses = 10_000

// Fire is a task that a schedule has added.
type Fire struct {
	Task task.ID   `json:"task"`
	Time time.Time `json:"time"`          // of the calendar, or when the task was triggered
	Node task.ID   `json:"node,omitzero"` // that has the task, if nodes have stores of their own
}

// Pause says when and why a schedule was paused.
type Pause struct {
	At     time.Time `json:"at"`
	Reason string    `json:"reason,omitempty"`
}

// Order is a request of a user to a schedule. Exactly one of the fields apart from At is set.
type Order struct {
	At       time.Time   `json:"at"` // when it was given
	Define   *Definition `json:"define,omitempty"`
	Pause    *Pause      `json:"pause,omitempty"`
	Resume   bool        `json:"resume,omitempty"`
	Delete   bool        `json:"delete,omitempty"`
	Trigger  bool        `json:"trigger,omitempty"`
	Backfill *Backfill   `json:"backfill,omitempty"`
}

// isRule reports whether o changes when the schedule fires.
func (o Order) isRule() bool { return o.Define != nil || o.Pause != nil || o.Resume || o.Delete }

// Backfill asks for tasks for all times from one time to another, both included.
type Backfill struct {
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
}

// Foresee returns the definition and the state after the orders of s, without the fires that are due until then.
func (s State) Foresee(d Definition) (Definition, State) {
	for _, o := range s.Orders {
		switch {
		case o.Define != nil:
			d, s.Deleted = *o.Define, false
			s.Edits++
		case o.Pause != nil:
			s.Paused = o.Pause
		case o.Resume:
			s.Paused = nil
		case o.Delete:
			s.Deleted = true
			s.Edits++
		}
	}
	return d, s
}

// DeletedFirst returns the state of a schedule that failed in its last run and has an order to delete it. It drops the
// orders before that one and the waiting times: they may be the reason of the failure, and the schedule could never be
// deleted. Without an order to delete it returns s.
func (s State) DeletedFirst() State {
	for i := range slices.Backward(s.Orders) {
		if s.Orders[i].Delete {
			for _, o := range s.Orders[:i+1] {
				if o.Define != nil || o.Delete {
					s.Edits++
				}
			}
			s.Deleted, s.Waiting, s.Orders = true, nil, s.Orders[i+1:]
			break
		}
	}
	return s
}

// TriggeredID returns the id of the task that a schedule adds because a person has triggered it at a time.
func TriggeredID(schedule task.ID, at time.Time) task.ID { return schedule.Child(at, "trigger") }
