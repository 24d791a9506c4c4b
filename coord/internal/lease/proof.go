package lease

import "time"

// Proof says until when a session lasts at least. The zero Proof says nothing.
type Proof struct {
	Until     time.Time     // of the monotonic clock
	Suspended time.Duration // how long the machine had been suspended when the renewal began: see [Suspended]
}

// Holds reports whether the session lasts at a time of the monotonic clock. That clock stops while the machine is
// suspended, and that of the coordinator does not: suspended is for how long the machine was suspended since it was
// started.
func (p Proof) Holds(now time.Time, suspended time.Duration) bool {
	return now.Add(suspended - p.Suspended).Before(p.Until)
}

// List is the list of members that a member has, and the proof by which it is up to date. The answer to a renewal
// proves that the member lives, and lists the others that do; the member must not count on the proof before it has the
// list. The methods are called under the lock of the owner.
type List struct {
	changed bool  // since the list that the member has, or is getting
	passing bool  // the member is getting a list
	by      Proof // of the newest renewal with a list that the member has
}

// Change notes that the list has changed.
func (l *List) Change() { l.changed = true }

// Pass notes that the member is getting the list that a proof has confirmed. Passed follows.
func (l *List) Pass(by Proof) {
	l.changed, l.passing = false, true
	if l.by == (Proof{}) { // while it gets the list of the others for the first time, it takes none of them for dead
		l.by = by
	}
}

// Passed notes that the member has the list that a proof has confirmed. now is the newest proof.
func (l *List) Passed(by, now Proof) {
	l.passing, l.by = false, by
	l.Renew(now)
}

// Renew notes a new proof. It counts if the member has all changes until then.
func (l *List) Renew(now Proof) {
	if l.by != (Proof{}) && !l.changed && !l.passing {
		l.by = now
	}
}

// By returns the newest proof that counts.
func (l *List) By() Proof { return l.by }
