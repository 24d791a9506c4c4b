package task

import "time"

// Erasure removes the content of a task that has ended, or of one in [Error], which becomes [Failed] by that. The row keeps its id, type, states and
// times, the names of its nodes, and how many attempts it took. It loses its payload, result, checkpoint, headers, progress, errors and old values, its
// keys and its group. A receipt remains, see [Task.Erased]. The change's NextEventAt is until when that is kept. The task never runs again.
type Erasure struct {
	By  string // who has ordered it
	Job string // the bulk job that has done it
}

// KeepReceipt is for how long a row is kept at least after its content was erased.
const KeepReceipt = 30 * 24 * time.Hour

// MaxBy is the maximum number of bytes of a name in the By of an [Attempt].
const MaxBy = 200

// Erased returns the receipt of an erasure: the newest entry of the history. It began when the task had ended. It returns nil if the content was not erased.
func (t *Task) Erased() *Attempt {
	if n := len(t.History); n > 0 && t.History[n-1].Outcome == Erased {
		return &t.History[n-1]
	}
	return nil
}

// CanBeErased reports whether the content of a task in state s can be erased.
func (s State) CanBeErased() bool { return s == Error || !s.Live() }

// Forgets reports whether c removes what the row carries: it becomes a [Task.Tombstone], or its content is erased.
func (c *Change) Forgets() bool { return c.Remember > 0 || c.Erase != nil }

// erases reports whether the state of t permits the erasure c.
func (c *Change) erases(t *Task) bool {
	isSame := c.Replace == nil && c.Put == nil && c.Mark == nil && c.Await == nil && len(c.Adds) == 0 && c.Remember == 0 && !c.FreesKey && c.Payload == nil && c.Checkpoint == nil && c.Group == nil && c.Search == nil
	switch {
	case !isSame:
		return false
	case t.State == Error:
		return c.To == Failed
	}
	return t.State.CanBeErased() && c.To == t.State
}

// apply applies e to t, which had ended at a time.
func (e *Erasure) apply(t *Task, ended, at time.Time) {
	t.Payload, t.Result, t.Headers, t.LastError, t.Notes, t.Signals = nil, nil, nil, "", nil, nil
	t.Key, t.OrderingKey, t.Group, t.Search, t.Inherits, t.Boost = "", "", "", nil, false, 0
	past := make([]Attempt, 0, len(t.History)+1)
	for _, a := range t.History {
		past = append(past, Attempt{Number: a.Number, StartedAt: a.StartedAt, EndedAt: a.EndedAt, Node: a.Node, Outcome: a.Outcome, By: a.By, Job: a.Job})
	}
	t.History = past
	t.append(Attempt{Number: t.Attempt, StartedAt: ended, EndedAt: at, Outcome: Erased, By: cut(e.By, MaxBy), Job: cut(e.Job, MaxBy)})
}
