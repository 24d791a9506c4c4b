//go:build !race

package core

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/taskengine/taskengine/engine/internal/table"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/task"
)

// This file prints the effects of the core of a story, and has the store of the story answer reads.

func (s *story) printf(format string, args ...any) { fmt.Fprintf(&s.out, format, args...) }

// since returns a time as the duration since the beginning.
func (s *story) since(t time.Time) string {
	if t.IsZero() {
		return "never"
	}
	return t.Sub(beginning).String()
}

// row returns a row as text, without the obvious.
func (s *story) row(t *task.Task) string {
	text := fmt.Sprintf("%d: %s", number(t.ID), t.State)
	if t.Attempt > 0 {
		text += fmt.Sprintf(", attempt %d", t.Attempt)
	}
	if t.Crashes > 0 {
		text += fmt.Sprintf(", %d crashes", t.Crashes)
	}
	if t.State != task.Processing && !t.NextEventAt.IsZero() {
		text += ", until " + s.since(t.NextEventAt)
	}
	if t.LastError != "" {
		text += ": " + t.LastError
	}
	return text
}

// change returns a change as text, without the obvious.
func (s *story) change(c task.Change) string {
	text := fmt.Sprintf("%d: %s", number(c.ID), c.To)
	if !c.NextEventAt.IsZero() {
		text += ", until " + s.since(c.NextEventAt)
	}
	if c.Outcome != task.Completed {
		text += ", after " + c.Outcome.String()
	}
	switch c.Count {
	case task.Refund:
		text += ", not counted"
	case task.Reset:
		text += ", counted anew"
	}
	if !c.ReadyAt.IsZero() && c.OrderingKey != "" {
		text += ", at another seat"
	}
	if c.Leaves {
		text += ", leaves its seat"
	}
	if c.Error != "" {
		text += ": " + c.Error
	}
	return text
}

// absorb prints the effects of the core, and keeps them until the script answers them.
func (s *story) absorb() {
	var r Ready
	s.core.Take(&r)
	for i, c := range append(slices.Clone(r.Grabs), r.Relaxed...) {
		relaxed := ""
		if i >= len(r.Grabs) {
			relaxed = ", relaxed"
		}
		s.grabs[c.ID] = c
		s.printf("grab %d%s\n", number(c.ID), relaxed)
	}
	for _, run := range r.Runs {
		s.running[run.ID] = true
		s.printf("run %d", number(run.ID))
		if run.Task.Attempt > 1 {
			s.printf(", attempt %d", run.Task.Attempt)
		}
		if !run.Deadline.IsZero() {
			s.printf(", until %s", s.since(run.Deadline))
		}
		s.printf("\n")
	}
	for _, stop := range r.Stops {
		s.printf("stop %d: %v\n", number(stop.ID), stop.Cause)
	}
	for _, save := range r.Saves {
		s.saves[save.ID] = append(s.saves[save.ID], save)
		removed := ""
		if save.Remove {
			removed = ", and delete it"
		}
		if save.Head != nil {
			removed += ", and grab the next head"
		}
		s.printf("save %s%s\n", s.change(save.Change), removed)
	}
	for _, key := range r.Keys {
		s.printf("look for the head of %s\n", key)
	}
	for _, w := range r.Wants {
		s.printf("%s: %d want a slot\n", w.Pool, w.Tasks)
	}
	s.asked(r)
	if wake := s.core.Wake(); wake != s.woke {
		s.woke = wake
		s.printf("wake at %s\n", s.since(wake))
	}
}

// asked prints the reads of the core.
func (s *story) asked(r Ready) {
	for _, l := range r.Loads {
		s.loads[l.Queue] = l
		s.printf("load %d of %s after %s\n", l.Limit, queueName(l.Queue), rankName(l.After))
	}
	for _, sc := range r.Scans {
		s.scans = append(s.scans, sc)
		s.printf("scan after %s\n", queueName(sc.After))
	}
	for _, l := range r.DueLoads {
		s.dueLoads[l.State] = l
		s.printf("look for %s after %s\n", l.State, s.since(l.AfterAt))
	}
}

func queueName(l task.Queue) string {
	if l == (task.Queue{}) {
		return "nothing"
	}
	if n := len(l.Type) - 1; n > 0 && l.Type[n] == 0xff { // the end of the types before one
		return "the types before " + l.Type[:n-1] + string([]byte{l.Type[n-1] + 1})
	}
	return strings.TrimSuffix(l.Type+"/"+l.Group, "/")
}

func rankName(r task.Rank) string {
	if r == (task.Rank{}) {
		return "nothing"
	}
	return fmt.Sprintf("priority %d, seq %d", r.Priority, r.Seq)
}

// sorted returns the rows of a state in the given order.
func (s *story) sorted(state task.State, order func(a, b *task.Task) int) []*task.Task {
	var some []*task.Task
	for _, row := range s.rows {
		if row.State == state {
			some = append(some, row)
		}
	}
	slices.SortFunc(some, func(a, b *task.Task) int { return cmp.Or(order(a, b), a.ID.Compare(b.ID)) })
	return some
}

func (s *story) loaded(a args) error {
	queue := task.Queue{Type: a.At(0)}
	queue.Group, _ = a.Value("group")
	l, ok := s.loads[queue]
	if !ok {
		return errors.New("no load of it is under way")
	}
	delete(s.loads, queue)
	if a.Has("failed") {
		s.core.Loaded(s.now, queue, nil, false)
		return nil
	}
	var page []task.Trigger
	for _, row := range s.sorted(task.Submitted, func(a, b *task.Task) int { return a.Rank().Compare(b.Rank()) }) {
		if row.Queue() == queue && row.Rank().Compare(l.After) > 0 {
			page = append(page, row.Trigger())
		}
	}
	s.core.Loaded(s.now, queue, page[:min(len(page), l.Limit)], len(page) < l.Limit)
	return nil
}

func (s *story) scanned(args) error {
	if len(s.scans) == 0 {
		return errors.New("no scan is under way")
	}
	after := s.scans[0].After
	s.scans = s.scans[1:]
	order := func(a, b task.Queue) int { return cmp.Or(cmp.Compare(a.Type, b.Type), cmp.Compare(a.Group, b.Group)) }
	var queues []task.Queue
	for _, row := range s.sorted(task.Submitted, func(a, b *task.Task) int { return order(a.Queue(), b.Queue()) }) {
		if order(row.Queue(), after) > 0 {
			queues = append(queues, row.Queue())
		}
	}
	s.core.Scanned(slices.Compact(queues), true)
	return nil
}

func (s *story) dueLoaded(a args) error {
	state, _ := task.ParseState(a.At(0))
	l, ok := s.dueLoads[state]
	if !ok {
		return errors.New("no look for them is under way")
	}
	delete(s.dueLoads, state)
	var page []Due
	for _, row := range s.sorted(state, func(a, b *task.Task) int { return a.NextEventAt.Compare(b.NextEventAt) }) {
		at := row.NextEventAt
		if !at.IsZero() && cmp.Or(at.Compare(l.AfterAt), row.ID.Compare(l.AfterID)) > 0 {
			page = append(page, Due{row.Trigger(), at})
		}
	}
	s.core.DueLoaded(s.now, l, page, true)
	return nil
}

// maxTicks is how many times Core.Wake may return the same time.
const maxTicks = 3

// advance lets time pass, and calls Tick at the times of Core.Wake, as the shell does.
func (s *story) advance(a args) error {
	d, err := time.ParseDuration(a.At(0))
	if err != nil {
		return err
	}
	ticks := 0 // at the same time
	for end := s.now.Add(d); ; {
		wake := s.core.Wake()
		if wake.IsZero() || wake.After(end) {
			s.now = end
			return nil
		}
		if ticks++; wake.After(s.now) {
			s.now, ticks = wake, 1
		}
		if ticks > maxTicks {
			return fmt.Errorf("at %s the core wants to be woken for ever", s.since(s.now))
		}
		s.core.Tick(s.now)
		before := s.out.Len()
		s.printf("at %s:\n", s.since(s.now))
		began := s.out.Len()
		if s.absorb(); s.out.Len() == began { // no effect
			text := s.out.String()[:before]
			s.out.Reset()
			s.out.WriteString(text)
		}
	}
}

func (s *story) sleep(a args) error {
	d, err := time.ParseDuration(a.At(0))
	s.now = s.now.Add(d)
	s.core.Tick(s.now)
	return err
}

// edit changes a row as a user does, and tells the core.
func (s *story) edit(id task.ID, change task.Change) error {
	row, ok := s.rows[id]
	if !ok {
		return errors.New("there is no such row")
	}
	change.Ref, change.At = row.Ref(), s.now
	t := s.swap(change)
	if t == nil {
		return fmt.Errorf("it is %v and cannot become %v", row.State, change.To)
	}
	h := s.headOf(t.OrderingKey)
	t.Turn = row.Turn
	s.core.Changed(s.now, t)
	s.promoted(h)
	return nil
}

func (s *story) cancel(a args) error {
	return s.edit(a.id(), task.Change{To: task.Cancelled, Outcome: task.Overruled})
}

func (s *story) resume(a args) error {
	return s.edit(a.id(), task.Change{To: task.Submitted, Count: task.Reset})
}

func (s *story) finish(a args) error {
	row, ok := s.rows[a.id()]
	if !ok {
		return errors.New("there is no such row")
	}
	ref := row.Ref()
	change := task.Change{Ref: ref, To: task.Done, At: s.now}
	if in := a.Duration("again", 0); in > 0 {
		again, ok := s.core.Concluded(s.now, ref, task.Verdict{Outcome: task.Completed, Again: s.now.Add(in)})
		if !ok {
			fmt.Fprintln(&s.out, "the attempt is over")
			return nil
		}
		change = again
	}
	after := s.swap(change)
	if after == nil {
		return errors.New("the row cannot be changed so")
	}
	s.core.Finished(s.now, ref, after)
	return nil
}

func (s *story) trigger(a args) error {
	row, ok := s.rows[a.id()]
	if !ok {
		return errors.New("there is no such row")
	}
	s.core.add(s.now, row.Trigger()) // as an old hint does
	s.core.book(s.now)
	return nil
}

// die restarts the node: only the rows stay, and rows that are processing are orphaned.
func (s *story) die(args) error {
	for _, row := range s.sorted(task.Processing, func(_, _ *task.Task) int { return 0 }) {
		c := s.core.Rules(row.Type).Orphaned(s.now, row)
		s.printf("swap %s\n", s.change(c))
		s.swap(c)
	}
	s.start()
	return nil
}

// hold has the core hold the shards of tasks. A task of a story has a shard of its own.
func (s *story) hold(a args) error {
	var held task.Shards
	for i := range a.Words {
		held.Add(uint16(a.Numbered(i)))
	}
	s.core.Hold(s.now, held)
	return nil
}

func (s *story) unclaim(a args) error {
	i := slices.IndexFunc(s.inserts, func(t *task.Task) bool { return t.ID == a.id() })
	if i < 0 {
		return errors.New("it was not submitted")
	}
	s.core.Unclaim(s.now, s.inserts[i])
	s.printf("insert %s\n", s.row(s.inserts[i]))
	return nil
}

func (s *story) list(args) error {
	for _, id := range slices.SortedFunc(maps.Keys(s.rows), task.ID.Compare) {
		s.printf("%s\n", s.row(s.rows[id]))
	}
	return nil
}

func (s *story) stats(args) error {
	c := s.core.Stats()
	s.printf("fused %d, grabbed %d, wasted %d, stale %d, dropped %d, abandoned %d\n", c.Fused, c.Grabbed, c.Wasted, c.Stale, c.Dropped, c.Abandoned)
	s.printf("%d with a slot, %d in the table\n", s.core.Busy(), s.core.Waiting())
	return nil
}

func (s *story) why(a args) error {
	row, ok := s.rows[a.id()]
	if !ok {
		return errors.New("there is no such row")
	}
	w := s.core.Why(s.now, row)
	flags := []struct {
		is   bool
		text string
	}{
		{w.Grabbing, "it is being grabbed"},
		{w.Running && !w.Grabbing && !w.Abandoned, "it runs"},
		{w.Abandoned, "it was abandoned"},
		{w.Paused, "its type is paused"},
		{w.NoHandler, "no handler of its type"},
		{w.Held, "its database does not answer"},
		{w.Draining, "the node is stopping"},
		{w.Ahead > 0, fmt.Sprintf("%d of its queue rank before it", w.Ahead)},
		{w.Stored, "it, or others before it, are in the store only"},
	}
	for _, f := range flags {
		if f.is {
			s.printf("%s\n", f.text)
		}
	}
	for i, u := range w.Limits {
		if u.Full {
			s.printf("%s\n", s.usage(u, w.Holders[i]))
		}
		if u.IsTurnOf {
			s.printf("limit %q of %s: it is the turn of %s\n", u.Name, u.Value, u.Turn)
		}
	}
	return nil
}

func (s *story) usage(u table.Usage, holders []task.ID) string {
	text := fmt.Sprintf("limit %q", u.Name)
	if u.Value != "" {
		text += " of " + u.Value
	}
	text += fmt.Sprintf(" is full: %d of %d", u.Used, u.Max)
	if u.OpenAt > 0 {
		text += ", open at " + s.since(time.Unix(0, u.OpenAt))
	}
	for i, id := range holders {
		text += fmt.Sprintf("%s%d", []string{", held by ", " "}[min(i, 1)], number(id))
	}
	return text
}

// set changes a limit as a person does.
func (s *story) set(a args) error {
	o := policy.Override{Paused: a.Has("paused")}
	if n := a.Number("max", 0); n > 0 {
		o.Max = &n
	}
	if n := a.Number("rate", 0); n > 0 {
		o.Rate = &policy.Rate{Count: n, Per: a.Duration("each", time.Second), Burst: a.Number("burst", 0)}
	}
	s.changes++
	s.core.Override(s.now, s.changes, policy.Overrides{a.At(0): {"": o}}.Live())
	return nil
}
