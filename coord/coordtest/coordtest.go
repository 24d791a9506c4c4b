// Package coordtest has the suites that define the ports of package coord. A backend passes the
// suite of every port that it implements. The suites do not depend on the backend.
//
// The suites do not sleep and hope. They wait for events that must happen, and fail after
// [Backend].Patience. They exclude events that must not happen by the order of the others. A longer
// [Backend].Settle finds more mistakes and never reports a false one.
package coordtest

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

// Backend makes clusters of the backend under test. Their nodes implement the port P.
type Backend[P any] struct {
	// New starts an empty cluster for one test and returns a function that connects
	// another node to it. The cluster ends with the test.
	New func(t *testing.T) (connect func() P)

	// Sever makes a node lose all that it holds now, as if its lease had ended: leadership,
	// permits, membership. It returns when the loss is certain to come and the node may
	// request everything again.
	Sever func(t *testing.T, node P)

	// Patience is how long a suite waits for an event that must happen; 0 is a minute.
	Patience time.Duration

	// Settle is how long a suite waits for an event that must not happen; 0 is not at all.
	Settle time.Duration

	// Slower returns a backend with longer leases, for the next attempt at a test in which leases have
	// lapsed; nil: it is the same one.
	Slower func() Backend[P]

	// Overlap is how long a severed node may still hold, by its own knowledge, a role or permit that
	// another node has got; 0 is not at all.
	Overlap time.Duration

	// Parallel runs the tests of a suite in parallel: for backends with tests that mostly wait. Then
	// New and Sever are called by several goroutines.
	Parallel bool

	// Bubble runs every test in a bubble of testing/synctest: time is simulated, and
	// Settle is exact. Only for backends that wait for nothing outside the process.
	Bubble bool
}

// env is the environment of one attempt at a test.
type env[P any] struct {
	*testing.T
	Backend[P]
	ctx     context.Context // ends with the attempt
	connect func() P
	wg      sync.WaitGroup
	lapsed  atomic.Bool // a node has lost its lease, and the test did not sever it

	mu      sync.Mutex
	watched map[*func() bool]bool // guarded by mu: each reports whether a node has lost its lease
	lapses  chan struct{}         // closed when one of them has reported it
	once    sync.Once             // closes lapses
}

// attempts is how often a test is tried if leases end by themselves, because the machine is slow.
const attempts = 5

// lapse is the panic of a test that cannot go on because a lease has lapsed.
type lapse struct{}

// Context returns the context of the attempt. It hides that of the test.
func (e *env[P]) Context() context.Context { return e.ctx }

// run runs one test on a cluster of its own.
func (b Backend[P]) run(t *testing.T, name string, test func(*env[P])) {
	t.Helper()
	if b.Patience == 0 {
		b.Patience = time.Minute
	}
	body := func(t *testing.T) {
		for n := 1; !b.attempt(t, test); n++ {
			if b.Bubble {
				t.Fatal("a lease lapsed, and simulated time is never too short")
			}
			if n == attempts {
				t.Fatalf("leases lapsed in all of %d attempts", attempts)
			}
			t.Log("a lease lapsed, because the machine is slow: the test begins again")
			if b.Slower != nil {
				next := b.Slower()
				b.New, b.Sever, b.Slower = next.New, next.Sever, next.Slower
			}
		}
	}
	t.Run(name, func(t *testing.T) {
		if b.Parallel {
			t.Parallel()
		}
		if b.Bubble {
			synctest.Test(t, body)
			return
		}
		body(t)
	})
}

// attempt runs a test, and reports whether it came to an end: not if a lease lapsed.
func (b Backend[P]) attempt(t *testing.T, test func(*env[P])) (ended bool) {
	ctx, cancel := context.WithCancel(t.Context())
	e := &env[P]{T: t, Backend: b, ctx: ctx, connect: b.New(t), watched: map[*func() bool]bool{}, lapses: make(chan struct{})}
	defer func() {
		cancel()
		e.finish()
		if r := recover(); r != nil && r != any(lapse{}) {
			panic(r)
		}
	}()
	test(e)
	return true
}

// check ends the attempt if a lease has lapsed.
func (e *env[P]) check() {
	if e.isLapsed() {
		panic(lapse{})
	}
}

// lapse notes that a lease has lapsed, and ends the waits of the attempt.
func (e *env[P]) lapse() {
	e.lapsed.Store(true)
	e.once.Do(func() { close(e.lapses) })
}

// isLapsed reports whether a lease has lapsed.
func (e *env[P]) isLapsed() bool {
	e.mu.Lock()
	for isLost := range e.watched {
		if (*isLost)() {
			e.lapse()
		}
	}
	e.mu.Unlock()
	return e.lapsed.Load()
}

// watch has isLapsed call a function until the result is called.
func (e *env[P]) watch(isLost func() bool) (stop func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.watched[&isLost] = true
	return func() {
		e.isLapsed()
		e.mu.Lock()
		defer e.mu.Unlock()
		delete(e.watched, &isLost)
	}
}

// random checks a property with random values, until a lease lapses. It hides from rapid that the test
// may be in a bubble.
func (e *env[P]) random(property func(*rapid.T)) {
	rapid.Check(e, func(t *rapid.T) {
		defer func() {
			if r := recover(); r != nil && r != any(lapse{}) {
				panic(r)
			}
		}()
		if !e.lapsed.Load() {
			property(t)
		}
	})
	e.check()
}

// start runs fn in a goroutine that the test waits for at its end.
func (e *env[P]) start(fn func(ctx context.Context)) {
	ctx := e.Context()
	e.wg.Go(func() { fn(ctx) })
}

// finish waits for everything that start started.
func (e *env[P]) finish() {
	all := make(chan struct{})
	go func() { e.wg.Wait(); close(all) }()
	select {
	case <-all:
	case <-time.After(e.Patience):
		e.Error("something does not end though the test's context has ended")
	}
}

// mayOverlap reports whether a node may lead beside another one on a machine that is too slow for the lease.
func (e *env[P]) mayOverlap() bool { return e.Overlap > 0 && !e.Bubble }

// settle waits for the effects of calls in progress.
func (e *env[P]) settle() {
	switch {
	case e.Bubble:
		synctest.Wait()
	case e.Settle > 0:
		time.Sleep(e.Settle)
	}
}

// receive returns the next value of ch.
func receive[P, T any](e *env[P], what string, ch <-chan T) T {
	e.Helper()
	select {
	case v := <-ch:
		return v
	case <-e.lapses:
		panic(lapse{})
	case <-time.After(e.Patience):
		e.check()
		e.Fatalf("waited %v in vain for %s", e.Patience, what)
		panic("unreachable")
	}
}

// send sends a value to a function that a node calls while it has its lease.
func send[P, T any](e *env[P], what string, ch chan<- T, v T) {
	e.Helper()
	e.eventually(what, func() bool {
		select {
		case ch <- v:
			return true
		default:
			return false
		}
	})
}

// silent fails if something has come from ch. Where leaders may overlap, the test begins again.
func silent[P, T any](e *env[P], what string, ch <-chan T) {
	e.Helper()
	e.settle()
	select {
	case <-ch:
		e.check()
		if e.mayOverlap() {
			panic(lapse{})
		}
		e.Fatalf("%s, and should not have", what)
	default:
	}
}

// eventually waits until ok returns true, calling it again and again.
func (e *env[P]) eventually(what string, ok func() bool) {
	e.Helper()
	for deadline := time.Now().Add(e.Patience); !ok(); time.Sleep(5 * time.Millisecond) {
		e.check()
		if time.Now().After(deadline) {
			e.Fatalf("waited %v in vain for %s", e.Patience, what)
		}
	}
}

// alone fails the test when a function it wraps runs twice at once.
type alone struct {
	mu   sync.Mutex
	busy bool // guarded by mu
}

// enter begins a call that must be alone, and returns a function that ends it.
func (a *alone) enter(t *testing.T, what string) (leave func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.busy {
		t.Errorf("%s is called twice at once", what)
	}
	a.busy = true
	return func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.busy = false
	}
}
