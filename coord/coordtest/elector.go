package coordtest

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/taskengine/taskengine/coord"
)

// RunElector runs the suite of [coord.Elector].
func RunElector(t *testing.T, b Backend[coord.Elector]) {
	RunTurns(t, b)
	b.run(t, "a severed leader's context ends and another takes over", leadSevered)
	b.run(t, "a severed leader waits anew and leads again", leadAgain)
	b.run(t, "there are never two leaders though they are severed", leadSeveredStress)
}

// RunTurns runs the part of the suite of [coord.Elector] in which no node is severed, for electors by which a node that
// is severed leads. It does not call [Backend].Sever.
func RunTurns(t *testing.T, b Backend[coord.Elector]) {
	b.run(t, "Lead returns what fn returned", leadReturns)
	b.run(t, "a context that has ended already leads nowhere", leadEnded)
	b.run(t, "the end of Lead's context ends the leadership after fn returned", leadResigns)
	b.run(t, "a second node leads only after the first", leadInTurn)
	b.run(t, "a waiter whose context ends leaves no trace", leadCancelledWaiter)
	b.run(t, "all waiting callers lead in the end", leadAll)
	b.run(t, "roles are independent", leadRoles)
	b.run(t, "two callers on one node exclude each other", leadOneNode)
	b.run(t, "there are never two leaders", leadStress)
}

func leadReturns(e *env[coord.Elector]) {
	node := e.connect()
	for _, want := range []error{nil, errors.New("an error of fn")} {
		l := lead(e, node, "role")
		r := l.begins(e)
		if err := r.ctx.Err(); err != nil {
			e.check()
			e.Errorf("the leader's context has ended at the start: %v", err)
		}
		r.end <- want
		l.returns(e, want)
		if r.ctx.Err() == nil {
			e.Error("the leader's context has not ended with the leadership")
		}
	}
}

func leadEnded(e *env[coord.Elector]) {
	ctx, cancel := context.WithCancel(e.Context())
	cancel()
	err := e.connect().Lead(ctx, "role", func(context.Context) error {
		e.Error("fn was called")
		return nil
	})
	if !errors.Is(err, context.Canceled) {
		e.Errorf("Lead returned %v, want %v", err, context.Canceled)
	}
}

func leadResigns(e *env[coord.Elector]) {
	first, second := e.connect(), e.connect()
	ctx, cancel := context.WithCancel(e.Context())
	begun, ended, gate := make(chan struct{}), make(chan struct{}), make(chan struct{})
	open := sync.OnceFunc(func() { close(gate) })
	defer open()
	result := make(chan error, 1)
	e.start(func(context.Context) {
		result <- new(candidacy).lead(ctx, e, first, "role", func(ctx context.Context) error {
			close(begun)
			<-ctx.Done()
			close(ended)
			<-gate
			return nil
		})
	})
	receive(e, "the leadership", begun)
	next := lead(e, second, "role")
	cancel()
	receive(e, "the end of the leader's context", ended)
	silent(e, "the second leader began before the first one's fn had returned", next.reigns)
	open()
	if err := receive(e, "Lead to return", result); !errors.Is(err, context.Canceled) {
		e.check()
		e.Errorf("Lead returned %v, want %v", err, context.Canceled)
	}
	next.begins(e).end <- nil
	next.returns(e, nil)
}

func leadInTurn(e *env[coord.Elector]) {
	first := lead(e, e.connect(), "role")
	r := first.begins(e)
	second := lead(e, e.connect(), "role")
	silent(e, "a second node led beside the first", second.reigns)
	r.end <- nil
	s := second.begins(e)
	if r.ctx.Err() == nil {
		if e.mayOverlap() {
			panic(lapse{})
		}
		e.Error("the first leader's context has not ended before the second one began")
	}
	s.end <- nil
	first.returns(e, nil)
	second.returns(e, nil)
}

func leadCancelledWaiter(e *env[coord.Elector]) {
	first := lead(e, e.connect(), "role")
	r := first.begins(e)
	waiter := lead(e, e.connect(), "role")
	e.settle()
	waiter.cancel()
	waiter.returns(e, context.Canceled)
	third := lead(e, e.connect(), "role")
	r.end <- nil
	third.begins(e).end <- nil
	third.returns(e, nil)
	silent(e, "the waiter led", waiter.reigns)
}

func leadAll(e *env[coord.Elector]) {
	reigns := make(chan reign)
	var all []*leading
	for range 5 {
		all = append(all, leadTo(e, e.connect(), "role", reigns))
	}
	for range all {
		receive(e, "a leadership", reigns).end <- nil
	}
	for _, l := range all {
		l.returns(e, nil)
	}
}

func leadRoles(e *env[coord.Elector]) {
	a, b := e.connect(), e.connect()
	roles := []*leading{lead(e, a, "timer"), lead(e, a, "healer"), lead(e, b, "cleaner")}
	var all []reign
	for _, l := range roles {
		all = append(all, l.begins(e))
	}
	for i, r := range all {
		if err := r.ctx.Err(); err != nil {
			e.check()
			e.Errorf("a leader's context ended when another role got its leader: %v", err)
		}
		r.end <- nil
		roles[i].returns(e, nil)
	}
}

func leadOneNode(e *env[coord.Elector]) {
	node := e.connect()
	first := lead(e, node, "role")
	r := first.begins(e)
	second := lead(e, node, "role")
	silent(e, "two callers led at once", second.reigns)
	r.end <- nil
	second.begins(e).end <- nil
	first.returns(e, nil)
	second.returns(e, nil)
}

func leadSevered(e *env[coord.Elector]) {
	node := e.connect()
	first := lead(e, node, "role")
	r := first.begins(e)
	second := lead(e, e.connect(), "role")
	silent(e, "a second node led beside the first", second.reigns)
	first.severs(e, node)
	var s reign
	select { // the severed node may come first again, but only by a new term
	case s = <-second.reigns:
	case again := <-first.reigns:
		again.end <- nil
		s = second.begins(e)
	case <-e.lapses:
		panic(lapse{})
	case <-time.After(e.Patience):
		e.Fatal("no node took over from the severed leader")
	}
	if e.Overlap == 0 && r.ctx.Err() == nil {
		e.Error("the severed leader's context has not ended before another one leads")
	}
	receive(e, "the end of the severed leader's context", r.ctx.Done())
	if err := s.ctx.Err(); err != nil {
		e.check()
		e.Errorf("the new leader's context has ended: %v", err)
	}
	s.end <- nil
	second.returns(e, nil)
}

func leadAgain(e *env[coord.Elector]) {
	node := e.connect()
	l := lead(e, node, "role")
	for range 3 {
		r := l.begins(e)
		l.severs(e, node)
		receive(e, "the end of the severed leader's context", r.ctx.Done())
	}
	done := errors.New("done")
	l.begins(e).end <- done
	l.returns(e, done)
}

// throne checks that no two reigns overlap for longer than Overlap.
type throne struct {
	mu    sync.Mutex
	taken map[context.Context]bool // guarded by mu
	count atomic.Int64             // reigns so far
}

// sit is called at the start of a reign; the function it returns at its end.
func (h *throne) sit(e *env[coord.Elector], ctx context.Context) (rise func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.count.Add(1)
	for other := range h.taken {
		if other.Err() == nil && ctx.Err() == nil { // in this order: ctx began before, so both led when the first was asked
			e.start(func(context.Context) { h.overlap(e, ctx, other) })
		}
	}
	if h.taken == nil {
		h.taken = map[context.Context]bool{}
	}
	h.taken[ctx] = true
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.taken, ctx)
	}
}

func (h *throne) overlap(e *env[coord.Elector], a, b context.Context) {
	if e.Overlap > 0 {
		select {
		case <-a.Done():
			return
		case <-b.Done():
			return
		case <-time.After(e.Overlap):
		}
	}
	e.Errorf("two lead at once for longer than %v", e.Overlap)
}

func leadStress(e *env[coord.Elector]) {
	const nodes, rounds = 4, 25
	var h throne
	var wg sync.WaitGroup
	for range nodes {
		node := e.connect()
		wg.Go(func() {
			for range rounds {
				err := node.Lead(e.Context(), "role", func(ctx context.Context) error {
					rise := h.sit(e, ctx)
					defer rise()
					runtime.Gosched()
					return nil
				})
				if err != nil {
					e.Errorf("Lead returned %v", err)
				}
			}
		})
	}
	wg.Wait()
	if got := h.count.Load(); got < nodes*rounds {
		e.Errorf("fn was called %d times, want %d", got, nodes*rounds)
	}
}

// leadSeveredStress severs the leaders of several roles at the same time: the end of a lease may take long.
func leadSeveredStress(e *env[coord.Elector]) {
	const roles, nodes = 5, 3
	var all sync.WaitGroup
	for role := range roles {
		begun := make(chan coord.Elector)
		var h throne
		for range nodes {
			leadAgainAndAgain(e, fmt.Sprint("role ", role), &h, begun)
		}
		all.Go(func() { severLeaders(e, begun) })
	}
	all.Wait()
	e.check()
}

// leadAgainAndAgain has another node campaign until the test ends. It sends the node at the start of every reign.
func leadAgainAndAgain(e *env[coord.Elector], role string, h *throne, begun chan<- coord.Elector) {
	node := e.connect()
	e.start(func(ctx context.Context) {
		err := node.Lead(ctx, role, func(ctx context.Context) error {
			rise := h.sit(e, ctx)
			defer rise()
			select {
			case begun <- node:
			case <-ctx.Done():
			}
			<-ctx.Done()
			return nil
		})
		if !errors.Is(err, context.Canceled) {
			e.Errorf("Lead returned %v, want %v", err, context.Canceled)
		}
	})
}

// severLeaders severs some leaders, one after the other.
func severLeaders(e *env[coord.Elector], begun <-chan coord.Elector) {
	const reigns = 4
	for range reigns {
		select {
		case node := <-begun:
			e.Sever(e.T, node)
		case <-time.After(e.Patience):
			e.Error("no node leads")
			return
		}
	}
}
