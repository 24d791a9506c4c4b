package task

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Limits of tasks that run after others.
const (
	MaxAfter     = 100  // tasks after which one task runs
	MaxFollowers = 1000 // tasks that run after one task
)

// Names of sets in [Children] with tasks that are no children. Their [ChildSet.Tasks] are the ids.
const (
	// AfterSet has the tasks after which the task runs. It is also the name among [Signals.Awaits] of the wait for them.
	AfterSet = ReservedTypes + "after"
	// FollowersSet has the tasks that run after the task. They learn of its end.
	FollowersSet = ReservedTypes + "followers"
)

// RelayType is the type of the tasks of the engine that carry requests, signals and ends of tasks to other tasks.
const RelayType = ReservedTypes + "relay"

// EndHeader is the header of a task of [RelayType] that carries the end of a task, a [ReportedEnd] as JSON.
const EndHeader = "end"

// ReportedEnd is the end of a task on its way to the task To: to its parent, or to one that runs after it.
type ReportedEnd struct {
	To    ID     `json:"to"`
	Name  string `json:"name,omitempty"` // of the set of To
	Index uint32 `json:"index"`          // in the set; not used in [AfterSet]
	Of    ID     `json:"of,omitzero"`    // the task that has ended; only for [AfterSet]
	State State  `json:"state"`
}

// IsOfChildren reports whether the tasks of s are children.
func (s *ChildSet) IsOfChildren() bool { return !strings.HasPrefix(s.Name, ReservedTypes) }

// Tasks returns the ids of the tasks of s, if they are no children.
func (s *ChildSet) Tasks() []ID {
	if s == nil || s.IsOfChildren() {
		return nil
	}
	ids := make([]ID, len(s.Shards)/len(ID{}))
	for i := range ids {
		ids[i] = ID(s.Shards[i*len(ID{}):])
	}
	return ids
}

// IndexOf returns the place of a task among the [ChildSet.Tasks], -1 if it is none of them.
func (s *ChildSet) IndexOf(id ID) int { return slices.Index(s.Tasks(), id) }

// ExpectingTasks returns the Children of a new task that runs after others, see [Rules.Create]: when all of these are done or, with
// anyEnd, have ended.
func ExpectingTasks(ids []ID, anyEnd bool) *Children {
	s := ChildSet{Name: AfterSet, Added: uint32(len(ids)), Await: uint32(len(ids)), OrFailed: !anyEnd}
	for _, id := range ids {
		s.Shards = append(s.Shards, id[:]...)
	}
	return &Children{Sets: []ChildSet{s}}
}

// hasOnlyFollowers reports whether c has nothing but the tasks that run after the task. c may be nil.
func (c *Children) hasOnlyFollowers() bool {
	return c == nil || len(c.Sets) == 1 && c.Sets[0].Name == FollowersSet
}

// HaveAny reports whether a task has children.
func (c *Children) HaveAny() bool {
	return c != nil && slices.ContainsFunc(c.Sets, func(s ChildSet) bool { return s.IsOfChildren() })
}

// follow applies a change that adds tasks which run after t, or removes them.
func (c *Change) follow(t *Task) bool {
	if t.hasEnded() {
		return false
	}
	if c.More.Unfollow {
		c.unfollow(t)
		return true
	}
	now := t.Children.Clone()
	if now == nil {
		now = new(Children)
	}
	set := now.Set(FollowersSet)
	if set == nil {
		now.Sets = append(now.Sets, ChildSet{Name: FollowersSet})
		set = &now.Sets[len(now.Sets)-1]
	}
	was := set.Added
	for _, id := range c.More.Followers {
		if set.IndexOf(id) < 0 {
			set.Shards = append(set.Shards, id[:]...)
			set.Added++
		}
	}
	if set.Added > MaxFollowers {
		return false
	}
	if set.Added > was {
		t.Children = now
	}
	return true
}

// unfollow removes tasks that run after t.
func (c *Change) unfollow(t *Task) {
	was := t.Children.Set(FollowersSet)
	if !slices.ContainsFunc(c.More.Followers, func(id ID) bool { return was.IndexOf(id) >= 0 }) {
		return
	}
	now := t.Children.Clone()
	set := now.Set(FollowersSet)
	set.Added, set.Shards = 0, nil
	for _, id := range was.Tasks() {
		if !slices.Contains(c.More.Followers, id) {
			set.Shards = append(set.Shards, id[:]...)
			set.Added++
		}
	}
	now.Sets = slices.DeleteFunc(now.Sets, func(s ChildSet) bool { return s.Name == FollowersSet && s.Added == 0 })
	if t.Children = now; len(now.Sets) == 0 {
		t.Children = nil
	}
}

// createFollower is Create for a row that runs after others.
func (r *Rules) createFollower(now time.Time, t *Task) {
	children := t.Children
	if t.OrderingKey != "" {
		t.ReadyAt = LastTime // it holds back no other task of its key
	}
	t.Create(Waiting, now, time.Time{})
	t.Signals, t.Children = &Signals{Awaits: []string{AfterSet}, Patience: r.QueueTimeout}, children
}

// learnOfEnd gives t the ends of tasks after which it runs. If that ends its wait, t becomes Submitted, or Cancelled, with the Error and the
// NextEventAt of c, if one of them was to be done and is not.
func (c *Change) learnOfEnd(t *Task, now *Children, set *ChildSet) bool {
	if t.State == Waiting && slices.Contains(t.Awaits(), AfterSet) && set.isMet() {
		next := Change{Ref: t.Ref(), To: Submitted, At: c.At, ReadyAt: c.At, NextEventAt: overdueAt(c.At, t.Signals.Patience)}
		if set.OrFailed && set.Done < set.Added {
			next = Change{Ref: t.Ref(), To: Cancelled, At: c.At, Error: c.Error, NextEventAt: c.NextEventAt}
		}
		if !next.Apply(t) {
			return false
		}
		if t.State == Submitted { // the handler begins as that of any other task
			signals := t.Signals.copy()
			signals.Wake = Wake{}
			t.Signals = NewSignals(signals)
		}
		now = now.Resting()
	}
	t.Children = now
	return true
}

// EndCarriers returns the rows of the tasks of [RelayType] that report the end of t to its followers. They are in the shard of
// t, and belong into the transaction of the change by which it ends; t is as that makes it. It returns nil for almost every task.
func (t *Task) EndCarriers() []*Task {
	followers := t.Children.Set(FollowersSet)
	if followers == nil || !t.hasEnded() {
		return nil
	}
	home := t.ID.Shard()
	rows := make([]*Task, 0, followers.Added)
	for _, to := range followers.Tasks() {
		data, err := json.Marshal(ReportedEnd{To: to, Name: AfterSet, Of: t.ID, State: t.State})
		if err != nil {
			panic(err) // a struct of texts and numbers
		}
		row := &Task{
			ID: t.ID.Child(t.UpdatedAt, fmt.Sprint("tells ", to, t.Version)), Type: RelayType, Shard: home, Priority: DefaultPriority,
			OrderingKey: RelayKey(home, "child\x00"+to.String()), Group: GroupOf("", "after"), Headers: map[string]string{EndHeader: string(data)},
		}
		row.Create(Submitted, t.UpdatedAt, time.Time{})
		rows = append(rows, row)
	}
	return rows
}

// RelayKey returns the ordering key for a name of tasks of [RelayType] that have to run in their order in a shard.
func RelayKey(shard uint16, name string) string {
	sum := sha256.Sum256([]byte(name))
	for n := 0; ; n++ {
		if key := fmt.Sprintf("%s/%x/%d", RelayType, sum[:16], n); ShardOf(key) == shard {
			return key
		}
	}
}
