package task

import "time"

// Rules say how a type decides about its tasks: about the effect of a request ([Rules.Create], [Resolve]), and about the
// step after the end of an attempt ([Conclude], [Rules.Orphaned], [Rules.Reclaimed]). [Change.Apply], [NextHead] and
// [Task.Inherit] need no rules of a type. All of them are pure: times and random numbers are passed in.
//
// Rules belong to the policy of their type, which does not change while an engine runs. They are not changed.
type Rules struct {
	QueueTimeout time.Duration // how long a task may be ready before it starts; 0 is for ever
	TotalTimeout time.Duration // how long a task may take from when it is added; 0 is for ever

	OnConflict  OnConflict
	Window      time.Duration // of ThrottleNew
	MaxLateness time.Duration // how far in the past the time of a task may lie that is added; 0 is no limit

	AtMostOnce bool    // an attempt that ended without an answer makes its task an Error
	MaxCrashes uint32  // after this many crashed attempts in a row the task becomes an Error; 0 is never
	Retry      Retries // whether and when another attempt follows a failed one
	Fails      bool    // a task without another attempt becomes Failed; otherwise an Error, about which a person decides
	Continues  bool    // a task that becomes an Error gives up its seat
	Yields     bool    // a task that waits for its next attempt takes the seat of that time

	// For how long the row of a task is kept that has ended in these states: 0 is not at all, negative is for ever.
	KeepDone, KeepFailed, KeepCancelled time.Duration

	Remember time.Duration // for how long the key of a task is taken that is done; 0 is as long as its row is kept
}

// Retries says whether and when another attempt follows a failed one.
type Retries interface {
	// Next reports whether another attempt follows attempt n, which ended with v, and after which delay. The first
	// attempt is number 1. chance is in [0,1) and decides the jitter.
	Next(n uint32, v Verdict, chance float64) (delay time.Duration, again bool)

	// Exhausted reports whether attempt n was the last one that is allowed.
	Exhausted(n uint32) bool

	// Attempts returns how many attempts are allowed, as text.
	Attempts() string
}

// OnConflict is the effect of a request with a taken key.
type OnConflict uint8

// The values of OnConflict. A task has begun when it was grabbed once.
const (
	KeepExisting     OnConflict = iota // it does nothing, and is answered with the task that has the key
	RejectNew                          // it fails
	ReplaceExisting                    // its content becomes that of the task, unless the task has begun
	DebounceExisting                   // as ReplaceExisting, and its time becomes that of the task, too
	ThrottleNew                        // it adds a task if the task that has the key has ended, and was created longer ago than the window
)

var onConflictNames = [...]string{"keep", "reject", "replace", "debounce", "throttle"}

// String returns the name of the value.
func (o OnConflict) String() string { return onConflictNames[min(int(o), len(onConflictNames)-1)] }

// Replaces reports whether requests change the task that has their key.
func (o OnConflict) Replaces() bool { return o == ReplaceExisting || o == DebounceExisting }

// Create makes t the row to insert. t has the fields that its submitter decides. The row is Waiting if its time is in
// the future, and Submitted otherwise. A row with [Children] is Waiting for them until that time, or without one; it is Submitted if the
// time has come, or if it waits for none of them. A row with an [AfterSet] is Waiting for the tasks of that.
func (r *Rules) Create(now time.Time, t *Task) {
	if r.TotalTimeout > 0 {
		if end := now.Add(r.TotalTimeout); t.ExpiresAt.IsZero() || end.Before(t.ExpiresAt) {
			t.ExpiresAt = end
		}
	}
	if t.Children.Set(AfterSet) != nil {
		r.createFollower(now, t)
	} else if t.Children != nil {
		r.createParent(now, t)
	} else if t.ReadyAt.After(now) {
		t.Create(Waiting, now, t.ReadyAt)
	} else {
		t.Create(Submitted, now, r.OverdueAt(now))
	}
}

// createParent is Create for a row with Children.
func (r *Rules) createParent(now time.Time, t *Task) {
	children, until, wake := t.Children, t.ReadyAt, NotWoken
	if t.Version > 0 { // it was made before
		until, wake = t.NextEventAt, t.Woken().By
	}
	switch {
	case wake != NotWoken:
	case children.rest():
		wake = ByChildren
	case !until.IsZero() && !until.After(now):
		wake = ByTimeout
	}
	if wake != NotWoken {
		t.ReadyAt = time.Time{}
		t.Create(Submitted, now, r.OverdueAt(now))
		t.Signals, t.Children = &Signals{Wake: Wake{By: wake}}, children.Resting()
		return
	}
	if until.IsZero() && t.OrderingKey != "" {
		t.ReadyAt = LastTime // it holds back no other task of its key
	}
	t.Create(Waiting, now, until)
	t.Signals, t.Children = &Signals{Awaits: []string{AwaitsChildren}, Patience: r.QueueTimeout}, children
}

// OverdueAt returns the time from which a task that is Submitted now is overdue; zero is never.
func (r *Rules) OverdueAt(now time.Time) time.Time {
	if r.QueueTimeout > 0 {
		return now.Add(r.QueueTimeout)
	}
	return time.Time{}
}

// IsLate reports whether a request for this time may not add a task any more. The zero time is now.
func (r *Rules) IsLate(now, at time.Time) bool {
	return r.MaxLateness > 0 && !at.IsZero() && now.Sub(at) > r.MaxLateness
}

// Resolution is the effect of a request, see [Resolve].
type Resolution uint8

// The values of Resolution. A request that FreesKey, or that Replaces a task, makes a change.
const (
	Adds        Resolution = iota // its row is inserted
	Exists                        // nothing: its task exists
	AlreadyDone                   // nothing: the task that has its key is done
	Rejects                       // nothing: the task that has its key exists, and the type rejects such requests
	IsLate                        // nothing: its time lies too far in the past
	Replaces                      // its content becomes that of the task
	FreesKey                      // the task gives up its key, and then the row is inserted
)

var resolutionNames = [...]string{"adds", "exists", "already done", "rejects", "is late", "replaces", "frees key"}

// String returns the name of the value.
func (r Resolution) String() string { return resolutionNames[min(int(r), len(resolutionNames)-1)] }

// Resolve decides what a request does by the rules of its type. holder is the task that has the ID of the request, or
// else its key; nil if none has. row is that of the request: what its submitter decides, or what [Rules.Create] makes of
// that. The change is nil unless the request Replaces holder or FreesKey. It shares memory with row.
func Resolve(now time.Time, holder, row *Task, r *Rules) (Resolution, *Change) {
	switch mode := r.OnConflict; {
	case holder == nil && r.IsLate(now, row.ReadyAt):
		return IsLate, nil
	case holder == nil:
		return Adds, nil
	case holder.ID == row.ID: // it was made before
		return Exists, nil
	case mode == RejectNew:
		return Rejects, nil
	case mode == ThrottleNew && holder.hasEnded() && !now.Before(holder.CreatedAt.Add(r.Window)):
		if r.IsLate(now, row.ReadyAt) {
			return IsLate, nil
		}
		return FreesKey, &Change{Ref: holder.Ref(), To: holder.State, At: now, FreesKey: true}
	case holder.State == Done:
		return AlreadyDone, nil
	case !mode.Replaces() || !holder.CanBeReplaced() || row.Children != nil:
		return Exists, nil
	case mode == DebounceExisting && r.IsLate(now, row.ReadyAt):
		return IsLate, nil
	}
	return Replaces, r.replacement(now, holder, row)
}

// replacement returns the change that gives holder the content of the row of another request and, if requests are
// debounced, its time.
func (r *Rules) replacement(now time.Time, holder, row *Task) *Change {
	next := *row
	r.Create(now, &next)
	c := &Change{
		Ref: holder.Ref(), To: holder.State, At: now, OrderingKey: holder.OrderingKey, Group: &next.Group, Payload: &next.Payload, Search: &next.Search,
		Replace: &Replace{Priority: next.Priority, ExpiresAt: next.ExpiresAt, Headers: next.Headers},
	}
	if holder.Checkpoint() != nil {
		c.Checkpoint = new([]byte)
	}
	switch {
	case r.OnConflict == DebounceExisting:
		c.To, c.NextEventAt, c.ReadyAt = next.State, next.NextEventAt, next.ReadyAt
	case holder.State == Waiting:
		c.NextEventAt = holder.startsAt()
	default:
		c.NextEventAt = r.OverdueAt(now)
	}
	return c
}

// startsAt returns when a task becomes ready that is Waiting and has not begun; zero is never.
func (t *Task) startsAt() time.Time {
	at := t.NextEventAt
	switch {
	case at.IsZero() || !at.Equal(t.ExpiresAt) || t.ReadyAt.Equal(at):
		return at
	case t.ReadyAt.After(at): // it expires before
		return t.ReadyAt
	}
	return time.Time{} // it waits without a time until it expires
}

// hasEnded reports whether t is Done, Failed or Cancelled.
func (t *Task) hasEnded() bool { return t.State == Done || t.State == Failed || t.State == Cancelled }
