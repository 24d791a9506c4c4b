package shell

import (
	"cmp"
	"container/list"
	"fmt"
	"slices"
	"time"

	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

// backlog counts the backlog of a type that has a maximum: its tasks that are waiting or submitted.
//
// The shell gets the number once, by Recounted, and then follows every change that it commits or
// learns of. If no other process changes the rows, and the outcome of every commit is known, stored is
// exact. Otherwise the caller counts again from time to time.
type backlog struct {
	policy.Backlog
	name    string // of the type
	stored  int    // rows that are waiting or submitted
	claimed int    // rows of submissions that are not answered
	gained  int    // rows added since Recount; the count may have them or not
	refused uint64 // tasks that were not accepted
	dropped uint64 // tasks that were cancelled for newer ones

	line      list.List // of *place: submissions and tasks that wait for room, if its sources pause
	lineBytes int       // of the payloads in line
	waiting   int       // tasks that the places in line will add

	fullLine, pauseLine rarely // of the log
}

// Full is the answer to a submission that would exceed the maximum of a type. Nothing of the
// submission was passed to the core: its rows are unchanged.
type Full struct {
	Type      string
	Count     int // tasks of the backlog, including the tasks that are being added
	Waiting   int // tasks that wait for room before it
	New       int // tasks of the type in the submission
	Max       int
	WhenFull  policy.WhenFull
	CanWait   bool // another submission of the same rows could wait for room
	IsCrowded bool // it does not wait for room, because too many do
	IsKept    bool // it was for a task, and a place is kept for that task
}

// Error implements error.
func (f *Full) Error() string {
	return fmt.Sprintf("the backlog of type %s has %d tasks and %d that wait for room, and %d new ones exceed its max_backlog of %d", f.Type, f.Count, f.Waiting, f.New, f.Max)
}

// BacklogStatus is the backlog of one type.
type BacklogStatus struct {
	Type    string
	Tasks   int    // that are waiting or submitted, as far as this node knows
	Max     int    // of Tasks
	Refused uint64 // tasks that this node has not accepted since its start
	Dropped uint64 // tasks that this node has cancelled for newer ones since its start
	Waiting int    // tasks that wait for room on this node and are not added yet
}

// newBacklogs returns the backlogs that have a maximum, by type, and in the order of their names the
// ones that pause their sources.
func newBacklogs(types map[string]policy.Backlog) (bs map[string]*backlog, pausing []*backlog) {
	for name, p := range types {
		if p.Max <= 0 {
			continue
		}
		if bs == nil {
			bs = make(map[string]*backlog)
		}
		bs[name] = &backlog{Backlog: p, name: name}
		if bs[name].pauses() {
			pausing = append(pausing, bs[name])
		}
	}
	slices.SortFunc(pausing, func(a, b *backlog) int { return cmp.Compare(a.name, b.name) })
	return bs, pausing
}

// claim is places in a backlog that a submission has until it is answered.
type claim struct {
	*backlog
	rows int
}

// claimsOf returns the places that rows need. It is nil if no type of theirs has a maximum.
func (s *Shell) claimsOf(rows []*task.Task) (claims []claim) {
	if len(s.backlogs) == 0 {
		return nil
	}
	for _, t := range rows {
		b := s.backlogs[t.Type]
		if b == nil {
			continue
		}
		at := slices.IndexFunc(claims, func(c claim) bool { return c.backlog == b })
		if at < 0 {
			at, claims = len(claims), append(claims, claim{b, 0})
		}
		claims[at].rows++
	}
	return claims
}

// fullOf returns why backlogs have no room for claims, or nil. If isLast is set, they go behind all
// that wait for room.
func fullOf(claims []claim, isLast bool) (full *Full) {
	for _, c := range claims {
		count, waits := c.stored+c.claimed, isLast && c.line.Len() > 0
		if count+c.rows <= c.Max && !waits {
			continue
		}
		f := &Full{Type: c.name, Count: count, Waiting: c.waiting, New: c.rows, Max: c.Max, WhenFull: c.WhenFull}
		if full == nil || f.order() < full.order() {
			full = f
		}
	}
	return full
}

// order says which of several answers is given: nothing waits for room, or is dropped, for a
// submission that is refused, and nothing is dropped for one that waits.
func (f *Full) order() int {
	switch {
	case f.New > f.Max:
		return 0
	case f.WhenFull == policy.PauseSource:
		return 2
	case f.WhenFull == policy.DropOldest:
		return 3
	}
	return 1
}

// admit claims places in the backlogs for the rows of a submission. If one has no room it claims
// nothing, and the submission waits, or admit returns why it does not.
func (s *Shell) admit(now time.Time, sub *Submission) (full *Full, waits bool) {
	rows := sub.Placed()
	claims := s.claimsOf(rows)
	if claims == nil {
		return nil, false
	}
	if !sub.For.IsZero() {
		if full = s.RoomFor(now, sub.For, rows, sub.Waits); full != nil {
			return full, false
		}
		if p := s.places[sub.For]; p != nil {
			s.giveUp(p)
		}
		sub.claim(claims)
		return nil, false
	}
	if full = fullOf(claims, true); full == nil {
		sub.claim(claims)
		return nil, false
	}
	_, bytes := (&part{rows: sub.Rows}).size()
	p := &place{claims: claims, sub: sub, bytes: bytes}
	if full.CanWait = s.canWait(full, p); full.CanWait && sub.Waits {
		s.wait(now, p)
		return nil, true
	}
	return full, false
}

// Placed returns the rows that need places in backlogs.
func (sub *Submission) Placed() []*task.Task {
	if !slices.ContainsFunc(sub.Terms, func(t storage.Terms) bool { return t.NoPlace }) {
		return sub.Rows
	}
	var rows []*task.Task
	for i, t := range sub.Rows {
		if !sub.Terms[i].NoPlace {
			rows = append(rows, t)
		}
	}
	return rows
}

// claim claims places in backlogs.
func (sub *Submission) claim(claims []claim) {
	for _, c := range claims {
		c.claimed += c.rows
	}
	sub.claims = claims
}

// unclaim gives back the places of a submission, which is answered.
func (s *Shell) unclaim(sub *Submission) {
	for _, c := range sub.claims {
		c.claimed -= c.rows
	}
	sub.claims = nil
}

// Room returns a [Full] if the backlogs have no room for the rows that a transaction of the caller
// adds. before says how many rows of each type it has added already. Room claims no places: the transaction
// may never commit.
func (s *Shell) Room(before map[string]int, rows []*task.Task) *Full {
	for typ, n := range before {
		if b := s.backlogs[typ]; b != nil {
			b.claimed += n
			defer func() { b.claimed -= n }()
		}
	}
	return fullOf(s.claimsOf(rows), true)
}

// isBacklog reports whether tasks of a state belong to the backlog of their type.
func isBacklog(s task.State) bool { return s == task.Waiting || s == task.Submitted }

// follow counts a row that changed from a state, or was inserted (from Processing, which is not
// counted either), and is t now.
func (s *Shell) follow(from task.State, t *task.Task) {
	if len(s.backlogs) == 0 || t == nil {
		return
	}
	b := s.backlogs[t.Type]
	switch was, is := isBacklog(from), isBacklog(t.State); {
	case b == nil || was == is:
	case is:
		b.stored++
		b.gained++
	case !s.isOvertaken: // otherwise the count may have it already
		b.stored--
	}
}

// Recovered passes a row that was processing and that the caller has changed in the store. t is the
// row now.
func (s *Shell) Recovered(t *task.Task) { s.follow(task.Processing, t) }

// Recount begins a count of the backlogs, which Recounted ends.
func (s *Shell) Recount() {
	for _, b := range s.backlogs {
		b.gained = 0
	}
}

// Recounted passes the numbers of tasks in the store at a moment since Recount. Rows that were added
// since Recount are counted on top: the backlogs seem too long rather than too short.
func (s *Shell) Recounted(now time.Time, counts map[storage.StateType]int64) {
	stored := make(map[string]int64)
	for of, n := range counts {
		if isBacklog(of.State) {
			stored[of.Type] += n
		}
	}
	for name, b := range s.backlogs {
		b.stored = int(stored[name]) + b.gained
	}
	s.isMiscounted, s.counted = false, s.batches
	s.serve(now)
}

// IsMiscounted reports whether the outcome of a commit was unknown since the last Recounted: then the
// caller has to count the backlogs again.
func (s *Shell) IsMiscounted() bool { return s.isMiscounted }

// Adopt replaces the policies, see [core.Core.Adopt]. A backlog that is longer than its new maximum stays as it is.
func (s *Shell) Adopt(now time.Time, set policy.Set) {
	for name, b := range s.backlogs {
		b.Max = set.Types[name].MaxBacklog.Max
	}
	s.core.Adopt(now, set)
	s.serve(now)
}

// Excess returns by how many tasks the backlog of a type would exceed its maximum if some were added;
// 0 if there is room.
func (s *Shell) Excess(typ string, added int) int {
	b := s.backlogs[typ]
	if b == nil {
		return 0
	}
	return max(0, b.stored+b.claimed+added-b.Max)
}

// Rejected counts tasks that were not accepted.
func (s *Shell) Rejected(now time.Time, f *Full) {
	b := s.backlogs[f.Type]
	b.refused += uint64(f.New)
	if b.fullLine.allow(s.steady(now)) {
		s.log(Warn, "tasks are refused because the backlog of their type is full", "type", f.Type, "tasks", f.Count, "max_backlog", f.Max)
	}
}

// Dropped counts tasks that were cancelled for newer ones.
func (s *Shell) Dropped(now time.Time, typ string, n int) {
	b := s.backlogs[typ]
	b.dropped += uint64(n)
	if n > 0 && b.fullLine.allow(s.steady(now)) {
		s.log(Warn, "old tasks are cancelled because the backlog of their type is full", "type", typ, "max_backlog", b.Max)
	}
}

// Backlog returns the status of the backlog of a type. ok is false if it has no maximum.
func (s *Shell) Backlog(typ string) (status BacklogStatus, ok bool) {
	b := s.backlogs[typ]
	if b == nil {
		return status, false
	}
	return BacklogStatus{Type: typ, Tasks: b.stored, Max: b.Max, Refused: b.refused, Dropped: b.dropped, Waiting: b.waiting}, true
}
