package task

import "math"

// OpenChildren is the Await of a set of children that is open: more of them are added from outside, by a [Change] with More. No
// number of ends is as large, so the wait for the set is not over before a change closes it.
const OpenChildren = math.MaxUint32

// IsOpen reports whether more children may be added to s from outside. A set that was closed, or that its task no longer waits for,
// is not opened again.
func (s *ChildSet) IsOpen() bool { return s.Await == OpenChildren }

// MoreChildren are children that are added to a task that waits for them, see [Change].
type MoreChildren struct {
	AddedChildren

	// Close says that these are the last children of the set. From then on the task waits as Wait says, by its Count and OrFailed.
	Close bool
	Wait  ChildrenWait

	// Followers are no children, but tasks that run after the task, see [FollowersSet]. With them there is nothing else. Such a change
	// applies unless the task has ended, or would have more than MaxFollowers; also if it has all of them.
	Followers []ID
	Unfollow  bool // they run after the task no more; those that are none of its followers are left out
}

// extend applies a change that adds children to an open set, or closes it.
func (c *Change) extend(t *Task) bool {
	m := c.More
	if len(m.Followers) > 0 {
		return c.follow(t)
	}
	set := t.Children.Set(m.Name)
	switch {
	case t.State != Waiting, set == nil, !set.IsOpen(), m.From != set.Added:
		return false
	case uint64(m.From)+uint64(m.Count) > MaxChildren, m.Shards != nil && len(m.Shards) != int(m.Count):
		return false
	case m.From > 0 && m.Count > 0 && (m.Shards != nil) != (set.Shards != nil):
		return false
	}
	now := t.Children.Clone()
	set = now.Set(m.Name)
	set.Added += m.Count
	set.Shards = append(set.Shards, m.Shards...)
	if !m.Close {
		return c.learn(t, now, false)
	}
	set.Await, set.OrFailed = m.Wait.Count, m.Wait.OrFailed
	if set.Await == 0 || set.Await > set.Added {
		set.Await = set.Added
	}
	return c.learn(t, now, set.Await == 0 || set.isMet())
}
