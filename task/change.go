package task

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// Count says what a change does to the number of attempts.
type Count uint8

// The values of Count. A grab adds one attempt, whatever its Count is.
const (
	Keep   Count = iota
	Refund       // this attempt does not count: the handler snoozed, or did not begin
	Reset        // attempts and crashes become 0, and a task that does not begin to wait for a signal expires no more
)

// Outcome says how an attempt ended. The numbers are stored and must not change.
type Outcome uint8

// The outcomes of an attempt.
const (
	Completed   Outcome = iota // the handler returned a result
	Errored                    // the handler returned an error
	Crashed                    // the handler process or the node died during the attempt
	TimedOut                   // the attempt took longer than its type allows
	Snoozed                    // the handler asked to be called again later
	HandedBack                 // the handler could not take the task and did not begin
	Overruled                  // a user cancelled or changed the task meanwhile
	Interrupted                // the node stopped before the handler returned
	Edited                     // no attempt has ended: a person has changed the task, see [Mark]
	Erased                     // likewise: the content of the task was removed, see [Erasure]
)

var outcomeNames = [...]string{
	Completed: "completed", Errored: "errored", Crashed: "crashed", TimedOut: "timed_out",
	Snoozed: "snoozed", HandedBack: "handed_back", Overruled: "overruled", Interrupted: "interrupted", Edited: "edited", Erased: "erased",
}

// ByPeople reports whether an entry of the history with this outcome is a change by a person, and no attempt.
func (o Outcome) ByPeople() bool { return o == Edited || o == Erased }

// String returns the outcome's name.
func (o Outcome) String() string {
	if int(o) >= len(outcomeNames) {
		return fmt.Sprintf("outcome(%d)", uint8(o))
	}
	return outcomeNames[o]
}

// Change is one compare-and-swap: it applies if the task is still at Ref. [Change.Apply] alone
// defines its effect on a row.
type Change struct {
	Ref

	// The small fields are side by side, because changes are copied often.
	To      State
	Count   Count   // the effect on the number of attempts
	Outcome Outcome // how the running attempt ended; used only if the row is Processing
	Leaves  bool    // a task that becomes an Error gives up its seat, so that those behind it run

	// FreesKey has a task that has ended give up its Key, so that another task may have it. Nothing else of the
	// row changes but its version. Such a change applies to a row with a Key that is Done, Failed or Cancelled. To
	// is its state, and the change has no Payload and no Checkpoint.
	FreesKey bool

	// Due says that the engine makes the change because its node knows the row as ready or due. It applies to a row that
	// is Submitted or Waiting and whose NextEventAt has come at At, and to the grab of any Submitted row. So a version that
	// the store has lost, and then given to another state of the row, starts no task early, and none that has ended.
	Due bool

	At          time.Time      // when it was decided; becomes UpdatedAt of the row
	NextEventAt time.Time      // when the engine has to act on the task next; zero is never, or when it expires
	ReadyAt     time.Time      // the new ReadyAt, which is part of the Rank; zero keeps the old one
	Owner       ID             // incarnation of the node that runs it; used only if To is Processing
	Node        string         // the name of that node, as [NodeName] returns it; used likewise
	Result      []byte         // of the handler; used only if the change Completes
	Error       string         // becomes LastError unless it is empty
	Group       *string        // the new Group; nil keeps the old one
	Search      *[]SearchValue // the new Search; nil keeps the old one
	Payload     *[]byte        // the new Payload; nil keeps the old one
	Checkpoint  *[]byte        // the new checkpoint; nil keeps the old one, unless the change Completes
	Replace     *Replace       // the row takes the place of another request; nil for any other change
	Put         *Put           // a person gives the row other values; nil for any other change
	Mark        *Mark          // the history says that a person makes the change; nil if it does not
	Restore     *Restore       // an earlier change is undone; nil for any other change
	Erase       *Erasure       // the content of the row is removed; nil for any other change
	Await       *Await         // an attempt ends, and the task is Waiting for a signal, or Submitted if it has kept one; nil for any other change

	// Reencoded has the data of signals that the row has, encoded as it is to be stored from now on, by the IDs of the signals. A
	// signal that the row does not have then is left out.
	Reencoded map[ID][]byte

	Adds []AddedChildren // children that are added with the end of an attempt that has done its work

	// Ends reports ends of children to their parent at any version, as a Signal is delivered. If a wait of the task is over
	// by that, it becomes Submitted, with another version. Otherwise the row keeps its version. Nil is any other change.
	Ends *ChildEnds

	// More adds children to the set of a task that is open for them, or closes it, at any version, see [MoreChildren]. If the wait of
	// the task is over by that, it becomes Submitted, with another version. Otherwise the row keeps its version. Nil is any other change.
	More *MoreChildren

	// Signal delivers a signal to a task at any version: the Version is not used, nor is another field but ID, At and
	// OrderingKey. If the task waits for a signal of that name, it becomes Submitted, with another version. Otherwise the row
	// keeps its version, because the end of a running attempt names that. Nil is any other change.
	Signal *Delivery

	// Remember makes the row a Tombstone: it is Done, has nothing left but what identifies it and says when it
	// ran, and its NextEventAt is so long after its end. 0 is any other change. Such a change applies to a row
	// with a Key that is Processing, or Done and ended less than this ago.
	Remember time.Duration

	// By is the node of the attempt that the change ends: it applies to a row that is Processing with this Owner. The zero ID is
	// any other change. It tells attempts apart that have the same version, one of which the store has lost, such
	// as by a restore from a backup.
	By ID

	// OrderingKey is that of the row, if the caller knows that the row has one. It changes nothing. A store
	// that does not read rows before it changes them learns the ordering key by it.
	OrderingKey string
}

// Replace is what a task gets from a request that takes its place, besides the Payload and the Group of the
// change. Such a change applies to a task that is Waiting or Submitted and was never grabbed, and leaves it
// in one of these states.
type Replace struct {
	Priority  uint8
	ExpiresAt time.Time
	Headers   map[string]string
}

// Put is what a person gives a task, besides the Payload and the Group of the change. Such a change applies to a task that is Waiting, Submitted or an
// Error. It leaves an Error as that.
type Put struct {
	Priority *uint8             // nil keeps the old one
	Headers  *map[string]string // likewise
}

// apply applies p to t.
func (p *Put) apply(t *Task) {
	if p.Priority != nil {
		t.Priority = *p.Priority
	}
	if p.Headers != nil {
		t.Headers = maps.Clone(*p.Headers)
	}
}

// Mark is an entry of the history about a change by a person, with the outcome [Edited]. A bulk job recognizes its own changes by their marks.
type Mark struct {
	Was string // the old values in words
	By  string // who makes the change; "" if that is not known
	Job string // the bulk job that does; "" if none does

	// Payload is the payload of the row, as it is stored, if the change has another one and a bulk job makes it; otherwise nil. Stores do not read it.
	Payload *[]byte
}

// apply appends m to the history of t, with what t had before if a job makes the change.
func (m *Mark) apply(c *Change, t *Task, at time.Time) {
	a := Attempt{Number: t.Attempt, StartedAt: at, EndedAt: at, Outcome: Edited, Error: cut(m.Was, MaxErrorText), By: cut(m.By, MaxBy), Job: cut(m.Job, MaxBy)}
	if m.Job != "" {
		a.Before = c.before(t).encode()
	}
	t.History = withoutBefore(t.History)
	t.append(a)
}

// Create makes t a new row in state to, at version 1 and without attempts. Besides Apply it is the
// only code that writes NextEventAt.
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
	if t.Turn = Unordered; t.OrderingKey != "" {
		t.Turn = Behind
	}
	t.Inherits, t.Boost = t.Inherits && t.Turn == Behind, 0
	t.StartedAt, t.Owner, t.Node = time.Time{}, ID{}, ""
	t.Result, t.LastError, t.History, t.Notes, t.Tombstone, t.Signals, t.Children = nil, "", nil, nil, false, nil, nil
}

// Apply applies c to t and reports whether it did. It does nothing and returns false if t is at
// another version, if the state of t cannot become c.To, if t is not as By or Due say, if c grabs t and t is overdue at
// c.At, see [Task.IsOverdue], or Behind, if c replaces, remembers or frees what it may not, see [Replace], Remember
// and FreesKey, or if it Adds children at other places than the next. A change with a Signal applies unless t has ended, has
// got that signal, or does not wait for it and cannot keep it. One with Ends applies if one of them is new. One with
// More applies if the set is open and has From children. Times are stamped, and an error that is too long is cut. t keeps no reference to c except to its Result,
// its Payload and its Checkpoint.
func (c Change) Apply(t *Task) bool {
	switch {
	case t.ID != c.ID:
		return false
	case c.Signal != nil:
		return c.deliver(t)
	case c.Ends != nil:
		return c.report(t)
	case c.More != nil:
		return c.extend(t)
	}
	if t.Ref() != c.Ref || !c.permitted(t) {
		return false
	}
	if c.FreesKey {
		t.Key = ""
		t.Version++
		return true
	}
	at := Stamp(c.At)
	if c.To == Processing && (t.Turn == Behind || t.IsOverdue(at)) {
		return false
	}
	completes, kept, children := c.Completes(t.State), notKept, c.family(t)
	if c.Await != nil {
		children = c.awaiting(children)
		kept = c.begin(t, children)
	}
	signals := c.signals(t, kept, completes).reencoded(c.Reencoded)
	if kept != notKept {
		children = children.Resting()
	}
	turn, ended := c.turn(t), t.UpdatedAt
	reason := cut(c.Error, MaxErrorText)
	if t.State == Processing {
		c.endAttempt(t, at, reason)
	}
	if c.Mark != nil {
		c.Mark.apply(&c, t, at)
	}
	if completes {
		t.Result, t.Notes = c.Result, NewNotes(t.Progress(), nil)
	}
	if c.Payload != nil {
		t.Payload = *c.Payload
	}
	if c.Checkpoint != nil {
		t.Notes = NewNotes(t.Progress(), *c.Checkpoint)
	}
	switch c.Count {
	case Refund:
		t.Attempt -= min(1, t.Attempt)
	case Reset:
		t.Attempt, t.Crashes = 0, 0
		if c.Await == nil {
			t.ExpiresAt = time.Time{}
		}
	}
	if c.Restore != nil {
		c.Restore.apply(t)
	}
	switch {
	case c.To == Processing:
		t.Attempt = min(t.Attempt, MaxCount-1) + 1
		t.Owner, t.Node, t.StartedAt = c.Owner, c.Node, at
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
	if r := c.Replace; r != nil {
		t.Priority, t.ExpiresAt, t.Headers = r.Priority, Stamp(r.ExpiresAt), maps.Clone(r.Headers)
	}
	if c.Put != nil {
		c.Put.apply(t)
	}
	if c.Group != nil {
		t.Group = *c.Group
	}
	if c.Search != nil {
		t.Search = slices.Clone(*c.Search)
	}
	if t.State == Done && c.Remember > 0 { // it ended before
		at = t.UpdatedAt
	}
	if turn != Head || c.Replace != nil || c.Put != nil {
		t.Boost = 0
	}
	t.State, t.UpdatedAt, t.Turn, t.Signals, t.Children = c.To, at, turn, signals, children
	if c.Remember > 0 {
		t.Payload, t.Result, t.Headers, t.LastError, t.History, t.Notes, t.Inherits, t.Search = nil, nil, nil, "", nil, nil, false, nil
		t.Tombstone = true
		c.NextEventAt = at.Add(c.Remember)
	}
	if c.Erase != nil {
		c.Erase.apply(t, ended, at)
	}
	t.schedule(c.NextEventAt)
	t.Version++
	return true
}

// endAttempt ends the running attempt of t.
func (c *Change) endAttempt(t *Task, at time.Time, reason string) {
	if c.To != Done && c.Outcome != HandedBack {
		t.remember(c.Outcome, at, reason)
	}
	switch c.Outcome {
	case Crashed:
		t.Crashes = min(t.Crashes, MaxCount-1) + 1
	case Completed, Errored, Snoozed:
		t.Crashes = 0
	}
	t.Owner = ID{}
}

// permitted reports whether the state of t permits c.
func (c *Change) permitted(t *Task) bool {
	switch {
	case !c.By.IsZero() && (t.State != Processing || t.Owner != c.By), c.Due && !c.isDue(t):
		return false
	case t.Erased() != nil:
		return false
	case c.Restore != nil:
		return c.restores(t)
	case c.Erase != nil:
		return c.erases(t)
	case c.FreesKey:
		hasEnded := t.State == Done || t.State == Failed || t.State == Cancelled
		return t.Key != "" && hasEnded && c.To == t.State && c.Remember == 0 && c.Replace == nil && c.Payload == nil && c.Checkpoint == nil
	case c.Remember > 0:
		isOpen := t.State == Processing || t.State == Done && Stamp(c.At).Before(t.UpdatedAt.Add(c.Remember))
		return t.Key != "" && c.To == Done && isOpen && c.Replace == nil
	case c.Await != nil && (t.State != Processing || c.To != Waiting):
		return false
	case len(c.Adds) > 0 && (!c.Completes(t.State) || !c.addable(t)):
		return false
	case c.Put != nil:
		return c.puts(t)
	case c.Replace != nil:
		return t.CanBeReplaced() && (c.To == Waiting || c.To == Submitted)
	}
	return t.State.CanBecome(c.To)
}

// isDue reports whether t is as Due says.
func (c *Change) isDue(t *Task) bool {
	switch {
	case t.State == Submitted && c.To == Processing:
		return true
	case t.State != Submitted && t.State != Waiting, t.NextEventAt.IsZero():
		return false
	}
	return !Stamp(c.At).Before(t.NextEventAt)
}

// CanBeReplaced reports whether another request may take the place of t, see [Replace]. It may not if t has children: they would be
// those of another request.
func (t *Task) CanBeReplaced() bool {
	return (t.State == Waiting || t.State == Submitted) && !t.HasBegun() && t.Children.hasOnlyFollowers()
}

// IsOverdue reports whether t is Submitted and has waited too long at the given time. Such a task is
// not started any more, and becomes an Error.
func (t *Task) IsOverdue(at time.Time) bool {
	return t.State == Submitted && !t.NextEventAt.IsZero() && !at.Before(t.NextEventAt)
}

// Completes reports whether c, applied to a row in state from, ends an attempt that has done its
// work: the task is done, or runs again at a later time. The row then has the result of that
// attempt. It has no checkpoint but that of c, because the next attempt does not continue this one.
func (c *Change) Completes(from State) bool {
	return from == Processing && (c.To == Done || c.Outcome == Completed && c.To == Waiting)
}

// Bytes returns the size of what c writes into the row: a result, a payload, a checkpoint and signals.
func (c *Change) Bytes() int {
	n := len(c.Result)
	if c.Signal != nil {
		n += len(c.Signal.Data)
	}
	if c.Payload != nil {
		n += len(*c.Payload)
	}
	if c.Checkpoint != nil {
		n += len(*c.Checkpoint)
	}
	for _, data := range c.Reencoded {
		n += len(data)
	}
	if c.Mark != nil && c.Mark.Payload != nil {
		n += min(len(*c.Mark.Payload), MaxBefore)
	}
	return n
}

// schedule sets NextEventAt. For a task that is Waiting or Submitted it is not after ExpiresAt.
func (t *Task) schedule(at time.Time) {
	at = Stamp(at)
	waits := t.State == Waiting || t.State == Submitted
	if waits && !t.ExpiresAt.IsZero() && (at.IsZero() || t.ExpiresAt.Before(at)) {
		at = t.ExpiresAt
	}
	t.NextEventAt = at
}

// remember appends the running attempt to the history.
func (t *Task) remember(o Outcome, at time.Time, reason string) {
	t.append(Attempt{Number: t.Attempt, StartedAt: t.StartedAt, EndedAt: at, Node: t.Node, Outcome: o, Error: reason})
}

// append appends to the history and drops the oldest entries beyond MaxHistory. It copies the slice, because rows share their history
// with their clones.
func (t *Task) append(a Attempt) {
	kept := t.History[max(0, len(t.History)+1-MaxHistory):]
	t.History = append(kept[:len(kept):len(kept)], a)
}

// NodeName returns the name of a node as rows have it: valid UTF-8 without NUL, of at most MaxNode bytes.
func NodeName(name string) string { return cut(name, MaxNode) }

// cut returns s as every store can keep it as text: valid UTF-8 without NUL, of at most most bytes.
// It copies a text that it shortens, so that a row does not keep all of s in memory.
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
