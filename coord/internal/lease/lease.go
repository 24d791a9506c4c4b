// Package lease has the common parts of the electors of backends: a request for a role that is answered
// once, may be withdrawn, and once granted may be lost.
package lease

import "context"

// Lease is a request for a role, and once it is granted the leadership. The
// backend keeps it and calls its methods: either Grant or Refuse, once, and after Grant at
// most one Lose. None of them waits, so that the backend may call them while it holds a lock.
type Lease struct {
	answer chan error // receives one value: nil if granted, or why it is not
	lost   func(why error)
}

// New returns a lease that is neither granted nor refused. Lose calls lost, which must not
// wait.
func New(lost func(why error)) *Lease {
	return &Lease{answer: make(chan error, 1), lost: lost}
}

// Grant says that the role is the caller's.
func (l *Lease) Grant() { l.answer <- nil }

// Refuse says that the role will never be granted.
func (l *Lease) Refuse(why error) { l.answer <- why }

// Lose says that the role was taken away though it was not released.
func (l *Lease) Lose(why error) { l.lost(why) }

// Wait waits for Grant, Refuse or the end of ctx, and returns nil, the reason, or ctx's error.
// After an error of ctx the lease may be granted all the same: the caller releases it.
func (l *Lease) Wait(ctx context.Context) error {
	select {
	case err := <-l.answer:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Lead requests a lease, calls fn while it is granted, and releases it. The context of fn ends
// when the lease is lost; its cause is then the reason. Request hands the lease to the backend.
// Release takes it back, in whatever state it is, and reports whether it was held until then.
// If Lead returns false, the lease was not granted, or was lost before fn returned, and the
// error means nothing.
func Lead(ctx context.Context, request func(*Lease), release func() bool, fn func(context.Context) error) (held bool, err error) {
	term, end := context.WithCancelCause(ctx)
	l := New(end)
	defer func() { // after a panic of fn, too
		end(nil)
		held = release()
	}()
	request(l)
	if err := l.Wait(ctx); err != nil || term.Err() != nil {
		return false, err
	}
	return false, fn(term)
}
