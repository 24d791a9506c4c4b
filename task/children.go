package task

import (
	"crypto/sha256"
	"encoding/binary"
	"slices"
)

// Limits of the children of a task.
const (
	MaxChildSets = 1000    // names of children that a task has
	MaxChildren  = 1 << 20 // children of one name
)

// AwaitsChildren is the name among [Signals.Awaits] of a wait for children. No signal has it.
const AwaitsChildren = ReservedTypes + "children"

// Parent is the task to which the end of a child is reported, and the child's place among the children of that.
type Parent struct {
	ID    ID
	Name  string // of the set of children
	Index uint32 // in the set, from 0 on
}

// Children are the children that a task has added with the ends of its attempts, and which of them have ended. A task that is
// done keeps them; a [Task.Tombstone] has none. The tasks after which a task runs, and those that run after it, are sets of their own,
// [AfterSet] and [FollowersSet]. Most tasks have none, therefore a row has a pointer to them, which is nil then. The Children of a row are never changed, but replaced.
type Children struct {
	Sets []ChildSet // in the order in which they were added; each Name once
}

// ChildSet are children of one name, or other tasks, see [ChildSet.IsOfChildren].
type ChildSet struct {
	Name  string
	Added uint32 // how many were added; they have the indexes from 0 on

	// How many of them have ended so. A child counts once, by its first end. One in [Error] has not ended.
	Done, Failed, Cancelled uint32
	Reported                []byte // which of them have ended: a bit for each, the first one is the lowest of the first byte; nil if none has

	// Shards has the shard of each child, if an ordering key of one of them decides that; otherwise it is nil. See [ChildSet.Child]. If the
	// tasks are no children, it has their ids, see [ChildSet.Tasks].
	Shards []byte

	Await    uint32 // the task waits until so many have ended; 0 if it does not wait for them; [OpenChildren] if more are added from outside
	OrFailed bool   // likewise, or until one has failed or was cancelled
}

// Ended returns how many children of s have ended.
func (s *ChildSet) Ended() uint32 { return s.Done + s.Failed + s.Cancelled }

// HasEnded reports whether the end of a child was reported.
func (s *ChildSet) HasEnded(index uint32) bool {
	at := int(index / 8)
	return at < len(s.Reported) && s.Reported[at]&(1<<(index%8)) != 0
}

// isMet reports whether the wait for s is over.
func (s *ChildSet) isMet() bool {
	return s.Await > 0 && (s.Ended() >= s.Await || s.OrFailed && s.Failed+s.Cancelled > 0)
}

// Child returns the id of a child of the task parent. near is the shard of the children that no ordering key binds, where
// several databases keep the tasks; otherwise it is negative.
func (s *ChildSet) Child(parent ID, index uint32, near int) ID {
	id := Parent{parent, s.Name, index}.Child()
	switch {
	case int(index) < len(s.Shards):
		return id.in(uint16(s.Shards[index]))
	case near >= 0:
		return id.in(uint16(near))
	}
	return id
}

// Child returns the id of the child at this place: the same arguments give the same id, so a child that is added twice
// exists once. It is a UUID of version 8 (RFC 9562): the first six bytes of the id of the parent, 46 bits of a SHA-256 of the parent and the
// name, the index in 20 bits, and a byte that spreads the children over the shards. So the children of a name sort by their indexes,
// which costs a store less to look up and to add.
func (p Parent) Child() (child ID) {
	h := sha256.New()
	h.Write(p.ID[:])
	h.Write([]byte(p.Name))
	copy(child[:6], p.ID[:6])
	copy(child[6:], h.Sum(nil))
	child[6] = child[6]&0x0f | 0x80
	child[8] = child[8]&0x3f | 0x80
	child[12] = child[12]&0xf0 | byte(p.Index>>16)&0x0f
	binary.BigEndian.PutUint16(child[13:], uint16(p.Index))
	child[15] ^= byte(p.Index) // it decides the shard, see ID.Shard
	return child
}

// In returns id in the given shard, see [ID.Shard].
func (id ID) In(shard uint16) ID { return id.in(shard) }

// Set returns the children of a name; nil if there are none. c may be nil.
func (c *Children) Set(name string) *ChildSet {
	if c == nil {
		return nil
	}
	for i := range c.Sets {
		if c.Sets[i].Name == name {
			return &c.Sets[i]
		}
	}
	return nil
}

// Clone returns a deep copy, nil of nil.
func (c *Children) Clone() *Children {
	if c == nil {
		return nil
	}
	n := &Children{Sets: slices.Clone(c.Sets)}
	for i := range n.Sets {
		n.Sets[i].Reported, n.Sets[i].Shards = slices.Clone(n.Sets[i].Reported), slices.Clone(n.Sets[i].Shards)
	}
	return n
}

// Resting returns c without waits: as a row has it that does not wait for children. It is c if there is no wait.
func (c *Children) Resting() *Children {
	if c == nil || !slices.ContainsFunc(c.Sets, func(s ChildSet) bool { return s.Await > 0 || s.OrFailed }) {
		return c
	}
	n := &Children{Sets: slices.Clone(c.Sets)}
	for i := range n.Sets {
		n.Sets[i].Await, n.Sets[i].OrFailed = 0, false
	}
	return n
}

// AddedChildren are children that are added with the end of an attempt, see [Change].
type AddedChildren struct {
	Name   string
	From   uint32 // the index of the first
	Count  uint32
	Shards []byte // as of [ChildSet], of these; nil if no ordering key binds one
}

// ChildrenWait is what a task waits for of its children of one name, see [WaitForChildren].
type ChildrenWait struct {
	Name     string
	Count    uint32 // how many have ended; 0 stands for all that were added
	OrFailed bool   // the wait is also over when one of them has failed or was cancelled
}

// ChildEnds are ends of children of one name on their way to the parent, see [Change].
type ChildEnds struct {
	Name string
	Ends []ChildEnd
}

// ChildEnd is the end of one child.
type ChildEnd struct {
	Index uint32
	State State // Done, Failed or Cancelled
}

// Expecting returns the Children of a new task, see [Rules.Create]: the children that are added with it, and the waits with which it
// begins, unless one of them is over. Each of the names is that of a set, also if it has no children.
func Expecting(names []string, adds []AddedChildren, waits []ChildrenWait) *Children {
	c := Change{Adds: adds}
	for _, name := range names {
		c.Adds = append(c.Adds, AddedChildren{Name: name})
	}
	now, isOver := c.family(new(Task)), false
	for _, w := range waits {
		s := now.Set(w.Name)
		if s == nil {
			continue
		}
		if s.Await, s.OrFailed = w.Count, w.OrFailed; w.Count == 0 {
			s.Await = s.Added
		}
		isOver = isOver || s.Await == 0
	}
	if isOver {
		return now.Resting()
	}
	return now
}

// rest reports whether no wait is left.
func (c *Children) rest() bool {
	return !slices.ContainsFunc(c.Sets, func(s ChildSet) bool { return s.Await > 0 })
}

// family returns the Children of t after c, but for the waits that begin with it.
func (c *Change) family(t *Task) *Children {
	if c.Remember > 0 {
		return c.familyOfTombstone(t)
	}
	if len(c.Adds) == 0 {
		if c.To == Waiting && t.State == Waiting {
			return t.Children
		}
		return t.Children.Resting()
	}
	now := t.Children.Clone()
	if now == nil {
		now = new(Children)
	}
	now = now.Resting()
	for _, a := range c.Adds {
		s := now.Set(a.Name)
		if s == nil {
			now.Sets = append(now.Sets, ChildSet{Name: a.Name})
			s = &now.Sets[len(now.Sets)-1]
		}
		s.Shards = append(slices.Clip(s.Shards), a.Shards...)
		s.Added += a.Count
	}
	return now
}

// familyOfTombstone returns the Children of t when it becomes a tombstone: a task that ends by that still tells those that run after it.
func (c *Change) familyOfTombstone(t *Task) *Children {
	followers := t.Children.Set(FollowersSet)
	if followers == nil || t.State != Processing {
		return nil
	}
	return (&Children{Sets: []ChildSet{*followers}}).Clone()
}

// addable reports whether t can get the children that c adds.
func (c *Change) addable(t *Task) bool {
	for i := range c.Adds {
		a, has := &c.Adds[i], uint32(0)
		if s := t.Children.Set(a.Name); s != nil {
			has = s.Added
		}
		for _, before := range c.Adds[:i] {
			if before.Name == a.Name {
				has += before.Count
			}
		}
		if a.From != has || a.Shards != nil && len(a.Shards) != int(a.Count) {
			return false
		}
	}
	return true
}

// awaiting returns children with the waits that begin with c.
func (c *Change) awaiting(of *Children) *Children {
	if of == nil || len(c.Await.Children) == 0 {
		return of
	}
	now := of.Clone()
	for _, w := range c.Await.Children {
		if s := now.Set(w.Name); s != nil {
			s.Await, s.OrFailed = w.Count, w.OrFailed
			if w.Count == 0 || w.Count > s.Added {
				s.Await = s.Added
			}
		}
	}
	return now
}

// areMet reports whether one of these waits is over, which c has. One for no children is.
func (c *Children) areMet(waits []ChildrenWait) bool {
	return slices.ContainsFunc(waits, func(w ChildrenWait) bool {
		s := c.Set(w.Name)
		return s == nil || s.isMet()
	})
}

// report applies a change that reports ends of children. It applies if one of them is new.
func (c *Change) report(t *Task) bool {
	set := t.Children.Set(c.Ends.Name)
	if set == nil {
		return false
	}
	isNew := false
	now := t.Children.Clone()
	set = now.Set(c.Ends.Name)
	for _, end := range c.Ends.Ends {
		isNew = set.report(end) || isNew
	}
	switch {
	case !isNew:
		return false
	case set.Name == AfterSet:
		return c.learnOfEnd(t, now, set)
	}
	return c.learn(t, now, set.isMet())
}

// learn gives t its new children. If its wait for some of these is over, t becomes Submitted.
func (c *Change) learn(t *Task, now *Children, isOver bool) bool {
	if isOver && t.State == Waiting && slices.Contains(t.Awaits(), AwaitsChildren) {
		patience := t.Signals.Patience
		next := Change{Ref: t.Ref(), To: Submitted, At: c.At, ReadyAt: c.At, NextEventAt: overdueAt(c.At, patience)}
		if !next.Apply(t) {
			return false
		}
		signals := t.Signals.copy()
		signals.Wake = Wake{By: ByChildren}
		t.Signals = &signals
		now = now.Resting()
	}
	t.Children = now
	return true
}

// report records the end of a child, and reports whether that is new.
func (s *ChildSet) report(end ChildEnd) bool {
	if end.Index >= s.Added || s.HasEnded(end.Index) {
		return false
	}
	switch end.State {
	case Done:
		s.Done++
	case Failed:
		s.Failed++
	case Cancelled:
		s.Cancelled++
	default:
		return false
	}
	if size := int(s.Added+7) / 8; len(s.Reported) < size {
		s.Reported = append(s.Reported, make([]byte, size-len(s.Reported))...)
	}
	s.Reported[end.Index/8] |= 1 << (end.Index % 8)
	return true
}
