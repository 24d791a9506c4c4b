package task

import (
	"fmt"
	"time"
	"unicode/utf8"
)

// Count says what a change does to the number of attempts.
type Count uint8

// The possibilities. Grabbing counts one attempt by itself, whatever the Count.
const (
	Keep   Count = iota
	Refund       // this attempt shall not count: snoozed, or handed back unharmed
	Reset        // start anew: attempts and crashes go to zero
)

// Outcome says how an attempt ended. The numbers are stored: never renumber them.
type Outcome uint8

// The outcomes of an attempt.
const (
	Completed  Outcome = iota // the handler returned a result
	Errored                   // the handler returned an error
	Crashed                   // the handler's process, or the node, died under it
	TimedOut                  // it ran longer than its type allows
	Snoozed                   // the handler asked to be called again later
	HandedBack                // the node gave it up unfinished, on shutdown for instance
	Overruled                 // somebody cancelled or failed the task meanwhile
)

var outcomeNames = [...]string{
	Completed: "completed", Errored: "errored", Crashed: "crashed", TimedOut: "timed_out",
	Snoozed: "snoozed", HandedBack: "handed_back", Overruled: "overruled",
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
	NextEventAt time.Time // when somebody must look at the task again; zero is never
	ReadyAt     time.Time // a new place in the order; zero keeps the old one
	Owner       ID        // who runs it; used only when To is Processing
	Count       Count     // what becomes of the number of attempts
	Outcome     Outcome   // how the running attempt ended; used only when leaving Processing
	Result      []byte    // what the handler returned; used only when To is Done
	Error       string    // why; kept as LastError unless empty
}

// Apply makes c of t and reports whether it did: it does nothing and returns false
// when t is at another version or its state cannot become c.To. Times are stamped, an
// overlong error is cut, and t keeps no reference to c but its Result.
func (c Change) Apply(t *Task) bool {
	if t.Ref() != c.Ref || !t.State.CanBecome(c.To) {
		return false
	}
	at := Stamp(c.At)
	reason := cut(c.Error)
	if t.State == Processing {
		if c.To != Done {
			t.remember(c.Outcome, at, reason)
		}
		if c.Outcome == Crashed {
			t.Crashes++
		}
		t.Owner = ID{}
	}
	switch c.Count {
	case Refund:
		t.Attempt -= min(1, t.Attempt)
	case Reset:
		t.Attempt, t.Crashes = 0, 0
	}
	switch {
	case c.To == Processing:
		t.Attempt++
		t.Owner, t.StartedAt = c.Owner, at
	case c.To == Done:
		t.Result, t.LastError = c.Result, ""
	}
	if reason != "" {
		t.LastError = reason
	}
	if !c.ReadyAt.IsZero() {
		t.ReadyAt = Stamp(c.ReadyAt)
	}
	t.State, t.NextEventAt, t.UpdatedAt = c.To, Stamp(c.NextEventAt), at
	t.Version++
	return true
}

// remember appends the running attempt to the history, dropping the oldest beyond
// MaxHistory. The slice is copied: rows share their history with their clones.
func (t *Task) remember(o Outcome, at time.Time, reason string) {
	kept := t.History[max(0, len(t.History)+1-MaxHistory):]
	t.History = append(kept[:len(kept):len(kept)], Attempt{
		Number: t.Attempt, StartedAt: t.StartedAt, EndedAt: at, Owner: t.Owner, Outcome: o, Error: reason,
	})
}

// cut shortens s to MaxErrorText bytes without splitting a character.
func cut(s string) string {
	if len(s) <= MaxErrorText {
		return s
	}
	n := MaxErrorText
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}
