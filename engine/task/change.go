package task

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"
)

// Count says what a change does to the number of attempts.
type Count uint8

// The possibilities. Grabbing counts one attempt by itself, whatever the Count.
const (
	Keep   Count = iota
	Refund       // this attempt shall not count: snoozed, or handed back unharmed
	Reset        // start anew: attempts and crashes go to zero, and it no longer expires
)

// Outcome says how an attempt ended. The numbers are stored: never renumber them.
type Outcome uint8

// The outcomes of an attempt.
const (
	Completed   Outcome = iota // the handler returned a result
	Errored                    // the handler returned an error
	Crashed                    // the handler's process, or the node, died under it
	TimedOut                   // it ran longer than its type allows
	Snoozed                    // the handler asked to be called again later
	HandedBack                 // the handler could not take it: it never began
	Overruled                  // somebody cancelled or failed the task meanwhile
	Interrupted                // the node stopped before the handler was done
)

var outcomeNames = [...]string{
	Completed: "completed", Errored: "errored", Crashed: "crashed", TimedOut: "timed_out",
	Snoozed: "snoozed", HandedBack: "handed_back", Overruled: "overruled", Interrupted: "interrupted",
}

// String returns the outcome's name.
func (o Outcome) String() string {
	if int(o) >= len(outcomeNames) {
		return fmt.Sprintf("outcome(%d)", uint8(o))
	}
	return outcomeNames[o]
}

// Change is one compare-and-swap: if the task is still at Ref, make it this. What it
// does to a row is [Change.Apply] and nothing else.
type Change struct {
	Ref
	To          State
	At          time.Time // when it was decided: the row's UpdatedAt
	NextEventAt time.Time // when somebody must look at the task again; zero is never, or when it expires
	ReadyAt     time.Time // a new place in the order; zero keeps the old one
	Owner       ID        // who runs it; used only when To is Processing
	Count       Count     // what becomes of the number of attempts
	Outcome     Outcome   // how the running attempt ended; used only when leaving Processing
	Result      []byte    // what the handler returned; used only if the change Completes
	Error       string    // why; kept as LastError unless empty
	Group       *string   // the values of its limits; nil keeps those that it has
}

// Create makes t a new row in state to, at version 1 and with no past. It is the only
// other place that writes NextEventAt.
func (t *Task) Create(to State, at, nextEventAt time.Time) {
	at = Stamp(at)
	t.Version, t.State = 1, to
	t.CreatedAt, t.UpdatedAt = at, at
	t.ReadyAt, t.ExpiresAt = Stamp(t.ReadyAt), Stamp(t.ExpiresAt)
	t.schedule(nextEventAt)
	if t.ReadyAt.IsZero() {
		t.ReadyAt = at
	}
	t.Attempt, t.Crashes, t.Seq = 0, 0, 0
	t.StartedAt, t.Owner = time.Time{}, ID{}
	t.Result, t.LastError, t.History, t.Notes = nil, "", nil, nil
}

// Apply makes c of t and reports whether it did: it does nothing and returns false
// when t is at another version or its state cannot become c.To, or when t was Submitted and
// is not to be started any more at c.At. Times are stamped, an overlong error is cut, and t
// keeps no reference to c but its Result.
func (c Change) Apply(t *Task) bool {
	if t.Ref() != c.Ref || !t.State.CanBecome(c.To) {
		return false
	}
	at := Stamp(c.At)
	if c.To == Processing && t.IsOverdue(at) {
		return false
	}
	reason := cut(c.Error, MaxErrorText)
	if t.State == Processing {
		if c.To != Done {
			t.remember(c.Outcome, at, reason)
		}
		switch c.Outcome {
		case Crashed:
			t.Crashes++
		case Completed, Errored, Snoozed:
			t.Crashes = 0
		}
		t.Owner = ID{}
	}
	if c.Completes(t.State) {
		t.Result, t.Notes = c.Result, NewNotes(t.Progress(), nil)
	}
	switch c.Count {
	case Refund:
		t.Attempt -= min(1, t.Attempt)
	case Reset:
		t.Attempt, t.Crashes, t.ExpiresAt = 0, 0, time.Time{}
	}
	switch {
	case c.To == Processing:
		t.Attempt++
		t.Owner, t.StartedAt = c.Owner, at
		t.Notes = NewNotes(Progress{}, t.Checkpoint())
	case c.To == Done:
		t.LastError = ""
	}
	if reason != "" {
		t.LastError = reason
	}
	if !c.ReadyAt.IsZero() {
		t.ReadyAt = Stamp(c.ReadyAt)
	}
	if c.Group != nil {
		t.Group = *c.Group
	}
	t.State, t.UpdatedAt = c.To, at
	t.schedule(c.NextEventAt)
	t.Version++
	return true
}

// IsOverdue reports whether t is Submitted and has waited too long at a time: it is not
// started any more, and is to become an Error.
func (t *Task) IsOverdue(at time.Time) bool {
	return t.State == Submitted && !t.NextEventAt.IsZero() && !at.Before(t.NextEventAt)
}

// Completes reports whether c, made of a row in state from, ends an attempt that has done its
// work, for good or until it runs again. The row then has the result of that attempt, and no
// checkpoint: there is nothing to tell the next one.
func (c *Change) Completes(from State) bool {
	return from == Processing && (c.To == Done || c.Outcome == Completed && c.To == Waiting)
}

// schedule sets NextEventAt. A task that waits is looked at again when it expires, if
// that comes first.
func (t *Task) schedule(at time.Time) {
	at = Stamp(at)
	waits := t.State == Waiting || t.State == Submitted
	if waits && !t.ExpiresAt.IsZero() && (at.IsZero() || t.ExpiresAt.Before(at)) {
		at = t.ExpiresAt
	}
	t.NextEventAt = at
}

// remember appends the running attempt to the history, dropping the oldest beyond
// MaxHistory. The slice is copied: rows share their history with their clones.
func (t *Task) remember(o Outcome, at time.Time, reason string) {
	kept := t.History[max(0, len(t.History)+1-MaxHistory):]
	t.History = append(kept[:len(kept):len(kept)], Attempt{
		Number: t.Attempt, StartedAt: t.StartedAt, EndedAt: at, Owner: t.Owner, Outcome: o, Error: reason,
	})
}

// cut makes s what every store can keep as text: valid UTF-8 without NUL, of at most
// most bytes. It copies what it shortens, so that a row does not keep all of s
// in memory.
func cut(s string, most int) string {
	if len(s) > most {
		n := most
		for n > most-utf8.UTFMax && !utf8.RuneStart(s[n]) {
			n--
		}
		s = strings.Clone(s[:n])
	}
	if utf8.ValidString(s) && strings.IndexByte(s, 0) < 0 {
		return s
	}
	return cut(strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD"), most)
}
