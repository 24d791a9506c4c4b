package election

import (
	"slices"
	"time"

	"github.com/taskengine/taskengine/task"
)

// maxKnown is how many other candidates are kept.
const maxKnown = 1024

// other is another candidate.
type other struct {
	id     task.ID
	seq    uint64 // of its newest message
	lease  time.Duration
	isGone bool          // it has said so, or its lease is over
	until  time.Duration // the end of its lease, or when it is forgotten if it is gone
}

// known has the other candidates, sorted by id.
type known []other

// learn notes a message, and reports whether it is newer than the known ones of its sender, and whether the sender was
// unknown or gone.
func (k *known) learn(now time.Duration, m Message) (isNewer, isNew bool) {
	i, found := slices.BinarySearchFunc(*k, m.From, func(o other, id task.ID) int { return o.id.Compare(id) })
	if found && m.Seq <= (*k)[i].seq {
		return false, false
	}
	isNew = !found || (*k)[i].isGone
	o := other{id: m.From, seq: m.Seq, lease: m.Lease, until: now + m.Lease}
	if m.Kind == Bye {
		o.isGone, o.until = true, now+forget(m.Lease)
	}
	if found {
		(*k)[i] = o
		return true, isNew
	}
	*k = slices.Insert(*k, i, o)
	if len(*k) > maxKnown {
		k.evict()
	}
	return true, isNew
}

// evict removes the one that is gone and would be forgotten first, or the one with the highest id.
func (k *known) evict() {
	last := len(*k) - 1
	for i, o := range *k {
		if o.isGone && (!(*k)[last].isGone || o.until < (*k)[last].until) {
			last = i
		}
	}
	*k = slices.Delete(*k, last, last+1)
}

// expire ends leases, and forgets candidates that have been gone for long.
func (k *known) expire(now time.Duration) {
	forgotten := false
	for i := range *k {
		o := &(*k)[i]
		if !o.isGone && o.until <= now {
			o.isGone, o.until = true, now+forget(o.lease)
		}
		forgotten = forgotten || o.isGone && o.until <= now
	}
	if forgotten {
		*k = slices.DeleteFunc(*k, func(o other) bool { return o.isGone && o.until <= now })
	}
}

// hasOlder reports whether a candidate that is not gone has a lower id.
func (k known) hasOlder(id task.ID) bool {
	for _, o := range k {
		if o.id.Compare(id) >= 0 {
			return false
		}
		if !o.isGone {
			return true
		}
	}
	return false
}

// next returns when the next lease is over, if that is before the time that is passed.
func (k known) next(before time.Duration) time.Duration {
	for _, o := range k {
		if !o.isGone {
			before = min(before, o.until)
		}
	}
	return before
}
