// Package wakeup provides a wake-up [Signal], a cancellable [Sleep], and the [Cost] of a round, to pace loops by.
package wakeup

import (
	"context"
	"time"
)

// Signal wakes a goroutine that waits for work. It carries no data: the goroutine looks for its work itself, under
// the lock that guards it. A producer adds work first and calls Set afterwards, so that no work is missed:
//
//	// The producer:
//	mu.Lock()
//	queue = append(queue, job)
//	mu.Unlock()
//	signal.Set()
//
//	// The consumer:
//	for {
//		select {
//		case <-signal.C():
//			work(takeAll(&mu, &queue))
//		case <-ctx.Done():
//			return
//		}
//	}
//
// Any number of calls of Set before the goroutine receives count as one: a Signal is set or not set, and receiving
// from C clears it. So a goroutine that is woken must take all the work that it finds, and may find none. If several
// goroutines receive from C, one call of Set wakes one of them.
//
// A Signal may be copied; copies are the same Signal. The methods may be called from any goroutine. Set does nothing
// on the zero Signal, and its C blocks for ever.
type Signal struct{ c chan struct{} }

// New returns a Signal that is not set.
func New() Signal { return Signal{make(chan struct{}, 1)} }

// Set sets the signal. It never blocks.
func (s Signal) Set() {
	select {
	case s.c <- struct{}{}:
	default: // it is set already
	}
}

// C returns the channel that delivers one value each time the signal is set. Receiving from it clears the signal. The
// channel is never closed.
func (s Signal) C() <-chan struct{} { return s.c }

// Sleep waits for d. It returns the error of ctx if that ends first.
func Sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
