package coordtest

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/taskengine/taskengine/coord"
)

// RunSemaphore runs the suite of [coord.Semaphore].
func RunSemaphore(t *testing.T, b Backend[coord.Semaphore]) {
	b.run(t, "as many permits as the limit are held at once by different nodes", permitsAtOnce)
	b.run(t, "a request that does not fit waits until permits are released", permitsWait)
	b.run(t, "a request that can never be granted is refused at once", permitsRefused)
	b.run(t, "a context that has ended already gets nothing", permitsEnded)
	b.run(t, "a waiter whose context ends leaves no trace", permitsCancelledWaiter)
	b.run(t, "releasing twice gives back once", permitsReleasedTwice)
	b.run(t, "names are independent", permitsNames)
	b.run(t, "a raised limit lets more in", permitsRaised)
	b.run(t, "after a limit was lowered nothing is granted above it", permitsLowered)
	b.run(t, "a large request is not starved by small ones", permitsNotStarved)
	b.run(t, "there are never more held than the limit", permitsStress)
	b.run(t, "a severed node's permits are lost and free again", permitsSevered)
	b.run(t, "a lost permit gives nothing back", permitsLostReleased)
	b.run(t, "a released permit is not lost", permitsReleasedNotLost)
	b.run(t, "a severed node can acquire again", permitsAgain)
	b.run(t, "there are never more held than the limit though nodes are severed", permitsSeveredStress)
}

// asked is one call of Acquire.
type asked struct {
	granted chan coord.Permit
	refused chan error
	cancel  context.CancelFunc
}

func ask(e *env[coord.Semaphore], node coord.Semaphore, name string, n, limit int) *asked {
	a := &asked{granted: make(chan coord.Permit, 1), refused: make(chan error, 1)}
	ctx, cancel := context.WithCancel(e.Context())
	a.cancel = cancel
	e.start(func(context.Context) {
		defer cancel()
		p, err := node.Acquire(ctx, name, n, limit)
		if err != nil {
			a.refused <- err
			return
		}
		a.granted <- p
	})
	return a
}

// get acquires permits that are free.
func get(e *env[coord.Semaphore], node coord.Semaphore, name string, n, limit int) coord.Permit {
	e.Helper()
	return receive(e, "permits there is room for", ask(e, node, name, n, limit).granted)
}

func mustHold(e *env[coord.Semaphore], p coord.Permit) {
	e.Helper()
	silent(e, "a permit was lost", p.Lost())
}

func permitsAtOnce(e *env[coord.Semaphore]) {
	a := get(e, e.connect(), "limit", 2, 4)
	node := e.connect()
	b, c := get(e, node, "limit", 1, 4), get(e, node, "limit", 1, 4)
	for _, p := range []coord.Permit{a, b, c} {
		mustHold(e, p)
		p.Release()
	}
	get(e, node, "limit", 4, 4).Release()
}

func permitsWait(e *env[coord.Semaphore]) {
	a := get(e, e.connect(), "limit", 2, 2)
	b := ask(e, e.connect(), "limit", 1, 2)
	c := ask(e, e.connect(), "limit", 1, 2)
	silent(e, "a permit beyond the limit was granted", b.granted)
	silent(e, "a permit beyond the limit was granted", c.granted)
	a.Release()
	receive(e, "the permits given back", b.granted).Release()
	receive(e, "the permits given back", c.granted).Release()
}

func permitsRefused(e *env[coord.Semaphore]) {
	node := e.connect()
	held := get(e, node, "limit", 1, 2)
	for _, c := range []struct{ n, limit int }{{3, 2}, {0, 2}, {-1, 2}, {1, 0}, {1, -1}} {
		receive(e, "the refusal", ask(e, node, "limit", c.n, c.limit).refused)
	}
	held.Release()
	get(e, node, "limit", 2, 2).Release()
}

func permitsEnded(e *env[coord.Semaphore]) {
	node := e.connect()
	ctx, cancel := context.WithCancel(e.Context())
	cancel()
	if _, err := node.Acquire(ctx, "limit", 1, 1); !errors.Is(err, context.Canceled) {
		e.Errorf("Acquire returned %v, want %v", err, context.Canceled)
	}
	get(e, node, "limit", 1, 1).Release()
}

func permitsCancelledWaiter(e *env[coord.Semaphore]) {
	node := e.connect()
	held := get(e, node, "limit", 1, 2)
	waiter := ask(e, e.connect(), "limit", 2, 2)
	silent(e, "a permit beyond the limit was granted", waiter.granted)
	waiter.cancel()
	if err := receive(e, "Acquire to return", waiter.refused); !errors.Is(err, context.Canceled) {
		e.Errorf("Acquire returned %v, want %v", err, context.Canceled)
	}
	other := get(e, node, "limit", 1, 2) // no request is before it
	held.Release()
	other.Release()
	get(e, node, "limit", 2, 2).Release() // nothing is kept for the waiter
}

func permitsReleasedTwice(e *env[coord.Semaphore]) {
	node := e.connect()
	a, b := get(e, node, "limit", 1, 2), get(e, node, "limit", 1, 2)
	a.Release()
	a.Release()
	c := get(e, node, "limit", 1, 2)
	a.Release()
	d := ask(e, node, "limit", 1, 2)
	silent(e, "a second release gave back what another holds", d.granted)
	b.Release()
	receive(e, "the permit given back", d.granted).Release()
	c.Release()
}

func permitsNames(e *env[coord.Semaphore]) {
	a, b := e.connect(), e.connect()
	first, second := get(e, a, "one", 1, 1), get(e, b, "another", 3, 3)
	waiter := ask(e, b, "one", 1, 1)
	second.Release()
	silent(e, "a release gave back permits of another limit", waiter.granted)
	first.Release()
	receive(e, "the permit given back", waiter.granted).Release()
}

func permitsRaised(e *env[coord.Semaphore]) {
	node := e.connect()
	held := get(e, node, "limit", 2, 2)
	waiter := ask(e, e.connect(), "limit", 1, 2)
	silent(e, "a permit beyond the limit was granted", waiter.granted)
	var w coord.Permit
	e.eventually("the permit that the raised limit allows", func() bool {
		get(e, node, "limit", 1, 4).Release() // again, should the waiter have come after it
		select {
		case w = <-waiter.granted:
			return true
		default:
			return false
		}
	})
	for _, p := range []coord.Permit{held, w} {
		mustHold(e, p)
		p.Release()
	}
}

func permitsLowered(e *env[coord.Semaphore]) {
	node := e.connect()
	a, b := get(e, node, "limit", 1, 3), get(e, node, "limit", 1, 3)
	waiter := ask(e, e.connect(), "limit", 1, 1)
	silent(e, "a permit beyond the lowered limit was granted", waiter.granted)
	a.Release()
	silent(e, "a permit beyond the lowered limit was granted", waiter.granted)
	mustHold(e, b) // what is held stays held
	b.Release()
	receive(e, "the permit under the lowered limit", waiter.granted).Release()
}

// permitsNotStarved keeps the limit half used at any time, hand over hand.
func permitsNotStarved(e *env[coord.Semaphore]) {
	node := e.connect()
	older := get(e, node, "limit", 1, 2)
	large := ask(e, e.connect(), "limit", 2, 2)
	e.settle()
	for deadline := time.Now().Add(e.Patience); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		newer := ask(e, node, "limit", 1, 2)
		e.settle()
		older.Release()
		select {
		case p := <-large.granted:
			p.Release()
			receive(e, "the small request after the large one", newer.granted).Release()
			return
		case older = <-newer.granted:
		case <-time.After(e.Patience):
			e.Fatal("neither the large nor the small request is granted")
		}
	}
	e.Fatalf("small requests were granted for %v before a large one that came first", e.Patience)
}

func permitsStress(e *env[coord.Semaphore]) {
	const nodes, callers, rounds, limit = 3, 4, 25, 5
	var held, most atomic.Int64
	var wg sync.WaitGroup
	for n := range nodes {
		node := e.connect()
		for c := range callers {
			random := rand.New(rand.NewPCG(uint64(n), uint64(c)))
			wg.Go(func() {
				for range rounds {
					n := 1 + random.IntN(limit)
					p, err := node.Acquire(e.Context(), "limit", n, limit)
					if err != nil {
						e.Errorf("Acquire returned %v", err)
						return
					}
					now := held.Add(int64(n))
					for top := most.Load(); now > top && !most.CompareAndSwap(top, now); top = most.Load() {
					}
					runtime.Gosched()
					held.Add(-int64(n))
					p.Release()
				}
			})
		}
	}
	wg.Wait()
	if most.Load() > limit {
		e.Errorf("%d permits were held at once, the limit is %d", most.Load(), limit)
	}
	get(e, e.connect(), "limit", limit, limit).Release() // all came back
}

func permitsSevered(e *env[coord.Semaphore]) {
	a, b := e.connect(), e.connect()
	mine, more, other := get(e, a, "limit", 1, 3), get(e, a, "limit", 1, 3), get(e, b, "limit", 1, 3)
	waiter := ask(e, e.connect(), "limit", 2, 3)
	silent(e, "a permit beyond the limit was granted", waiter.granted)
	e.Sever(e.T, a)
	p := receive(e, "the permits of the severed node", waiter.granted)
	for _, lost := range []coord.Permit{mine, more} {
		select {
		case <-lost.Lost():
		default:
			if e.Overlap == 0 {
				e.Error("a permit was granted again before Lost was closed")
			}
			receive(e, "the loss of the severed node's permits", lost.Lost())
		}
	}
	mustHold(e, other)
	mustHold(e, p)
	other.Release()
	p.Release()
}

func permitsLostReleased(e *env[coord.Semaphore]) {
	node := e.connect()
	lost := get(e, node, "limit", 1, 1)
	e.Sever(e.T, node)
	receive(e, "the loss of the severed node's permit", lost.Lost())
	held := get(e, e.connect(), "limit", 1, 1)
	lost.Release()
	waiter := ask(e, e.connect(), "limit", 1, 1)
	silent(e, "the release of a lost permit gave back what another holds", waiter.granted)
	held.Release()
	receive(e, "the permit given back", waiter.granted).Release()
}

func permitsReleasedNotLost(e *env[coord.Semaphore]) {
	node := e.connect()
	p := get(e, node, "limit", 1, 1)
	p.Release()
	mustHold(e, p)
	e.Sever(e.T, node)
	get(e, node, "limit", 1, 1).Release()
	mustHold(e, p)
}

func permitsAgain(e *env[coord.Semaphore]) {
	node := e.connect()
	for range 3 {
		p := get(e, node, "limit", 2, 2)
		mustHold(e, p)
		e.Sever(e.T, node)
		receive(e, "the loss of the severed node's permits", p.Lost())
	}
	get(e, node, "limit", 2, 2).Release()
}

// permitsSeveredStress lets three nodes request all permits, and severs the one that holds them.
func permitsSeveredStress(e *env[coord.Semaphore]) {
	const grants, limit = 20, 2
	nodes := []coord.Semaphore{e.connect(), e.connect(), e.connect()}
	type grant struct {
		node coord.Semaphore
		coord.Permit
	}
	granted := make(chan grant)
	for _, node := range nodes {
		e.start(func(ctx context.Context) {
			for {
				p, err := node.Acquire(ctx, "limit", limit, limit)
				if err != nil {
					if ctx.Err() == nil {
						e.Errorf("Acquire returned %v", err)
					}
					return
				}
				select {
				case granted <- grant{node, p}:
				case <-ctx.Done():
				}
			}
		})
	}
	last := receive(e, "a permit", granted)
	for range grants {
		e.Sever(e.T, last.node)
		next := receive(e, "the permits of the severed node", granted)
		if e.Overlap == 0 {
			select {
			case <-last.Lost():
			default:
				e.Error("the limit was granted again before Lost was closed")
			}
		}
		receive(e, "the loss of the severed node's permits", last.Lost())
		last = next
	}
}
