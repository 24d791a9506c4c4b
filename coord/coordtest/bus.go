package coordtest

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/task"
)

// RunBus runs the suite of [coord.Bus]. A hint may be lost, so a hint that must arrive is
// published repeatedly until it has.
func RunBus(t *testing.T, b Backend[coord.Bus]) {
	b.run(t, "every subscriber gets every field of a hint", busEveryone)
	b.run(t, "a hint may name no task but a shard, or all of them", busWakes)
	b.run(t, "a publisher needs no subscriber", busNobody)
	b.run(t, "a subscriber gets only what was published", busInventsNothing)
	b.run(t, "the slice is the publisher's again after Publish", busOwnSlice)
	b.run(t, "fn is called one at a time", busOneCall)
	b.run(t, "a slow subscriber holds up neither publisher nor others", busSlow)
	b.run(t, "Subscribe returns nil when its context has ended", busEnds)
	b.run(t, "a severed subscriber gets what comes later", busSevered)
	b.run(t, "a node that needs some shards gets their hints, and those about all", busSelects)
}

// subscribed is one call of Subscribe.
type subscribed struct {
	result chan error // the result of Subscribe
	cancel context.CancelFunc

	mu  sync.Mutex
	got map[task.Hint]int // guarded by mu: how often
}

func subscribe(e *env[coord.Bus], node coord.Bus) *subscribed {
	s := &subscribed{result: make(chan error, 1), got: map[task.Hint]int{}}
	ctx, cancel := context.WithCancel(e.Context())
	s.cancel = cancel
	e.start(func(context.Context) {
		defer cancel()
		s.result <- node.Subscribe(ctx, func(ts []task.Hint) {
			s.mu.Lock()
			defer s.mu.Unlock()
			for i := range ts {
				s.got[ts[i]]++
				ts[i] = task.Hint{} // it is fn's during the call
			}
		})
	})
	return s
}

func (s *subscribed) has(tr task.Hint) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.got[tr] > 0
}

// forget has it not have got a hint.
func (s *subscribed) forget(h task.Hint) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.got, h)
}

// hint returns a trigger with all fields set, different for every number.
func hint(number uint64) task.Hint {
	return task.Hint{State: task.State(1 + number%7), NextEventAt: time.UnixMicro(int64(number)).UTC(), Trigger: task.Trigger{
		Ref:   task.Ref{ID: task.ID{0: byte(number >> 8), 1: byte(number), 15: 1}, Version: number + 1},
		Queue: task.Queue{Type: "mail", Group: task.GroupOf("a\x1fb", "")},
		Rank:  task.Rank{Priority: uint8(number % 10), ReadyAt: 1_700_000_000_000_000 + int64(number), Seq: number},
		Shard: uint16(number),
	}}
}

func publish(e *env[coord.Bus], node coord.Bus, ts ...task.Hint) {
	e.Helper()
	if err := node.Publish(e.Context(), ts...); err != nil {
		e.Fatalf("Publish returned %v", err)
	}
}

// reach publishes tr from node until all of the subscribers have received it.
func reach(e *env[coord.Bus], node coord.Bus, tr task.Hint, all ...*subscribed) {
	e.Helper()
	again := time.Now()
	e.eventually("a hint published many times", func() bool {
		if !time.Now().Before(again) {
			publish(e, node, tr)
			again = time.Now().Add(50 * time.Millisecond)
		}
		return !slices.ContainsFunc(all, func(s *subscribed) bool { return !s.has(tr) })
	})
}

func busEveryone(e *env[coord.Bus]) {
	a, b := e.connect(), e.connect()
	own, twin, far := subscribe(e, a), subscribe(e, a), subscribe(e, b)
	for n := range uint64(5) {
		reach(e, a, hint(n), own, twin, far)
	}
	reach(e, b, hint(5), own, twin, far)
	plain := task.Hint{Trigger: task.Trigger{Ref: task.Ref{ID: task.ID{1}, Version: 1}}} // everything else may be missing
	reach(e, b, plain, own, twin, far)
}

func busWakes(e *env[coord.Bus]) {
	near := e.connect()
	own, far := subscribe(e, near), subscribe(e, e.connect())
	for _, shard := range []uint16{0, 3, 1<<16 - 1} {
		reach(e, near, coord.Wake(shard), own, far)
	}
	reach(e, near, coord.WakeAll(), own, far)
}

func busNobody(e *env[coord.Bus]) {
	node := e.connect()
	done := make(chan struct{})
	e.start(func(ctx context.Context) {
		defer close(done)
		for n := range uint64(1000) {
			if err := node.Publish(ctx, hint(n)); err != nil {
				e.Errorf("Publish returned %v", err)
			}
		}
		if err := node.Publish(ctx); err != nil {
			e.Errorf("Publish of nothing returned %v", err)
		}
	})
	receive(e, "Publish without a subscriber to return", done)
}

func busInventsNothing(e *env[coord.Bus]) {
	const publishers, hints = 3, 200
	s := subscribe(e, e.connect())
	var wg sync.WaitGroup
	for p := range uint64(publishers) {
		node := e.connect()
		wg.Go(func() {
			for n := range uint64(hints) {
				first := hint(p*hints + n)
				if err := node.Publish(e.Context(), first, first); err != nil {
					e.Errorf("Publish returned %v", err)
				}
			}
		})
	}
	wg.Wait()
	last := hint(publishers * hints)
	reach(e, e.connect(), last, s)
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.got, coord.WakeAll()) // it is the bus's to say
	for tr := range s.got {
		if tr.Seq > publishers*hints || tr != hint(tr.Seq) {
			e.Errorf("received %+v, which was not published", tr)
		}
	}
}

func busOwnSlice(e *env[coord.Bus]) {
	node := e.connect()
	s := subscribe(e, node)
	ts := make([]task.Hint, 1)
	for n := range uint64(20) {
		e.eventually("a hint published many times", func() bool {
			ts[0] = hint(n)
			publish(e, node, ts...)
			ts[0] = hint(1000)
			return s.has(hint(n))
		})
	}
	if s.has(hint(1000)) {
		e.Error("a subscriber got what was written to the slice after Publish")
	}
}

// busOneCall lets fn run until the next hint was published.
func busOneCall(e *env[coord.Bus]) {
	var a alone
	called, release := make(chan struct{}), make(chan struct{})
	node := e.connect()
	e.start(func(ctx context.Context) {
		_ = node.Subscribe(ctx, func([]task.Hint) {
			defer a.enter(e.T, "fn")()
			select {
			case called <- struct{}{}:
			case <-ctx.Done():
			}
			select {
			case <-release:
			case <-ctx.Done():
			}
		})
	})
	other := subscribe(e, node)
	for n := range uint64(10) {
		e.eventually("a hint published many times", func() bool {
			publish(e, node, hint(n))
			select {
			case <-called:
				return true
			default:
				return false
			}
		})
		reach(e, node, hint(100+n), other)
		e.settle()
		release <- struct{}{}
	}
}

func busSlow(e *env[coord.Bus]) {
	node := e.connect()
	busy, gate := make(chan struct{}), make(chan struct{})
	var once sync.Once
	var mu sync.Mutex
	awake := false // guarded by mu: it got the last hint
	last := hint(1 << 20)
	e.start(func(ctx context.Context) {
		_ = node.Subscribe(ctx, func(ts []task.Hint) {
			once.Do(func() { close(busy) })
			select {
			case <-gate:
			case <-ctx.Done():
			}
			mu.Lock()
			defer mu.Unlock()
			awake = awake || slices.Contains(ts, last)
		})
	})
	e.eventually("the slow subscriber's first hint", func() bool {
		publish(e, node, hint(0))
		select {
		case <-busy:
			return true
		default:
			return false
		}
	})
	quick := subscribe(e, e.connect())
	done := make(chan struct{})
	e.start(func(ctx context.Context) {
		defer close(done)
		batch := make([]task.Hint, 100)
		for n := range uint64(2000) {
			for i := range batch {
				batch[i] = hint(n)
			}
			if err := node.Publish(ctx, batch...); err != nil {
				e.Errorf("Publish returned %v", err)
			}
		}
	})
	receive(e, "Publish to return though a subscriber is slow", done)
	reach(e, node, hint(5000), quick)
	close(gate)
	e.eventually("a hint for the subscriber that was slow", func() bool {
		publish(e, node, last)
		mu.Lock()
		defer mu.Unlock()
		return awake
	})
}

func busEnds(e *env[coord.Bus]) {
	node := e.connect()
	gone, stays := subscribe(e, node), subscribe(e, node)
	reach(e, node, hint(1), gone, stays)
	gone.cancel()
	if err := receive(e, "Subscribe to return", gone.result); err != nil {
		e.Errorf("Subscribe returned %v after its context had ended, want nil", err)
	}
	reach(e, node, hint(2), stays)
	if gone.has(hint(2)) {
		e.Error("fn was called after Subscribe had returned")
	}
}

func busSevered(e *env[coord.Bus]) {
	node, other := e.connect(), e.connect()
	s := subscribe(e, node)
	reach(e, other, hint(1), s)
	e.Sever(e.T, node)
	reach(e, other, hint(2), s)
	reach(e, node, hint(3), s)
}

// busSelects changes the shards that a node needs again and again. A bus that is not selective passes all hints.
func busSelects(e *env[coord.Bus]) {
	far, node := e.connect(), e.connect()
	s := subscribe(e, node)
	selective, ok := node.(coord.Selective)
	if !ok {
		selective = everything{}
	}
	for n := range uint64(6) {
		var shards task.Shards
		for shard := range uint64(task.ShardCount) {
			if shard%6 == n {
				shards.Add(uint16(shard))
			}
		}
		selective.Want(&shards)
		shards = task.Shards{} // it is the caller's again
		for _, h := range []task.Hint{hint(6 + n), hint(66 + n), hint(246 + n), coord.Wake(uint16(126 + n))} {
			reach(e, far, h, s)
		}
		s.forget(coord.WakeAll())
		reach(e, far, coord.WakeAll(), s)
		s.forget(coord.Changed())
		reach(e, far, coord.Changed(), s)
	}
	selective.Want(nil)
	for n := range uint64(6) {
		reach(e, far, hint(100+n), s)
	}
}

// everything is the expectation of a bus that passes all hints.
type everything struct{}

func (everything) Want(*task.Shards) {}
