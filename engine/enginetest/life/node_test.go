package life

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/coord/local"
	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/task"
)

// node is an engine, from its start until it is closed or killed.
type node struct {
	w     *world
	name  string
	coord *local.Node
	link  *link
	all   bool                          // it handles all types
	pool  *pool                         // handles some; nil if there is none
	e     atomic.Pointer[engine.Engine] // nil until it is open

	closing atomic.Bool   // it is closing
	dead    chan struct{} // closed when it is killed, or its process has ended
	gone    chan struct{} // closed when nothing of it is on its way to the store any more
	once    sync.Once     // closes dead
	last    sync.Once     // closes gone

	severed time.Time         // guarded by world.mu: when it lost its lease last
	running map[task.ID]*run  // guarded by world.mu
	used    map[counted]int   // guarded by world.mu
	paused  map[string]pauses // guarded by world.mu
}

// pauses is the knowledge of a node of the pause of a type.
type pauses struct {
	since time.Time // when the type was paused
	still bool      // it was not resumed
}

func (n *node) isDead() bool {
	select {
	case <-n.dead:
		return true
	default:
		return false
	}
}

// start opens a node. With faults of the store that may take a while.
func (w *world) start(all bool) {
	w.born++
	n := &node{
		w: w, name: fmt.Sprintf("n%d", w.born), coord: w.first.Peer(), all: all, dead: make(chan struct{}), gone: make(chan struct{}),
		running: make(map[task.ID]*run), used: make(map[counted]int), paused: make(map[string]pauses),
	}
	n.link = &link{w: w, n: n}
	n.link.look()
	if w.plan.pool > 0 {
		n.pool = newPool(n, w.plan.pool)
	}
	if !w.calm.Load() && w.roll(2) == 0 {
		n.link.turn(w.newest)
	}
	w.mu.Lock()
	w.nodes = append(w.nodes, n)
	w.mu.Unlock()
	w.flights.Go(func() {
		for !n.isDead() && !w.isOver() {
			if n.open() {
				if n.isDead() { // it was ended when it had no engine yet
					n.stop(0)
				}
				return
			}
			time.Sleep(200 * time.Millisecond)
		}
	})
}

// open opens the engine of a node.
func (n *node) open() bool {
	w := n.w
	c := engine.Config{
		Store: n.link.store(), Policies: w.plan.set, Handlers: make(map[string]task.Handler), Name: n.name,
		Lease: w.plan.lease, LookAhead: w.plan.lookAhead, QueueLookAhead: w.plan.queueAhead, Log: slog.New(&scribe{n: n}),
	}
	for i, typ := range w.plan.types {
		if n.all || i > 0 {
			c.Handlers[typ] = task.HandlerFunc(n.handle)
			if slices.Contains(w.plan.pooled, typ) {
				c.Handlers[typ] = n.pool
			}
		}
	}
	by := &c.Coordinator
	by.Elector = n.coord
	if w.plan.cluster {
		by.Membership, by.Semaphore, by.Rates = n, n.coord, n.coord
		if w.plan.proves {
			by.Membership = prover{n}
		}
		if !w.plan.noBus {
			by.Bus = &bus{w: w, Bus: n.coord}
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	e, err := engine.Open(ctx, c)
	if err != nil {
		w.say(n, "cannot be opened: "+err.Error())
		return false
	}
	n.e.Store(e)
	w.say(n, "is open")
	return true
}

// Join implements [coord.Membership]. It records which incarnations are alive.
func (n *node) Join(ctx context.Context, self coord.Member, fn func([]coord.Member)) error {
	w := n.w
	if !w.calm.Load() && w.roll(8) == 0 {
		return errStorm
	}
	w.mu.Lock()
	w.incarnations[self.Incarnation] = n
	w.mu.Unlock()
	context.AfterFunc(ctx, func() { w.gone(n) })
	err := n.coord.Join(ctx, self, fn)
	w.gone(n)
	if err != nil && w.plan.proves && !w.calm.Load() && w.roll(2) == 0 { // the process had stopped, and hears of it late
		w.lates.Add(1)
		defer w.lates.Add(-1)
		t := time.NewTimer(w.span(0, 3*time.Second))
		defer t.Stop()
		select {
		case <-t.C:
		case <-ctx.Done():
		}
	}
	return err
}

// prover is a node that can always prove whether it is alive.
type prover struct{ *node }

// Proves implements [coord.Membership].
func (n prover) Proves(incarnation task.ID) bool {
	n.w.mu.Lock()
	defer n.w.mu.Unlock()
	return !n.w.hasEnded(incarnation)
}

// hasEnded reports whether an incarnation was alive and is not any more. It is called with mu held.
func (w *world) hasEnded(incarnation task.ID) bool {
	_, ended := w.ended[incarnation]
	return ended
}

// Proves implements [coord.Membership].
func (n *node) Proves(id task.ID) bool { return n.coord.Proves(id) }

// Lease implements [coord.Membership]. It is not known.
func (n *node) Lease() time.Duration { return n.coord.Lease() }

// Identity implements [coord.Membership].
func (n *node) Identity(ctx context.Context) (coord.Identity, error) { return n.coord.Identity(ctx) }

// Announce implements [coord.Membership].
func (n *node) Announce(self coord.Member) { n.coord.Announce(self) }

// gone records that the incarnations of a node are not alive any more.
func (w *world) gone(n *node) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for id, of := range w.incarnations {
		if _, ended := w.ended[id]; of == n && !ended {
			w.ended[id] = time.Now()
		}
	}
}

// sever takes the node's lease away.
func (n *node) sever() {
	n.w.say(n, "loses its lease")
	n.w.gone(n)
	n.w.mu.Lock()
	n.severed = time.Now()
	n.w.mu.Unlock()
	n.coord.Sever()
}

// close ends a node like a signal does: it waits for its handlers for the time of patience.
func (n *node) close(patience time.Duration) {
	n.w.say(n, "is closed, with patience for "+patience.String())
	n.closing.Store(true)
	n.stop(patience)
	n.end()
	n.w.say(n, "is closed")
}

// kill ends a node at once. Its calls in progress may still reach the store.
func (n *node) kill() {
	n.w.say(n, "is killed")
	n.end()
	n.stop(0) // only for its goroutines: it has no store any more
}

func (n *node) stop(patience time.Duration) {
	if e := n.e.Load(); e != nil {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		_ = e.Close(ctx)
	}
}

// end is the end of the node's process.
func (n *node) end() {
	w := n.w
	w.gone(n)
	w.mu.Lock()
	n.once.Do(func() { close(n.dead) })
	for _, r := range n.running {
		r.killed = true
	}
	clear(n.running)
	w.mu.Unlock()
	_ = n.coord.Close()
	n.link.settle()
	n.last.Do(func() { close(n.gone) })
}

// leave removes a node from the nodes that callers use.
func (w *world) leave(n *node) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if i := slices.Index(w.nodes, n); i >= 0 {
		w.nodes = slices.Delete(slices.Clone(w.nodes), i, i+1)
	}
}

// bus loses, doubles and delays hints.
type bus struct {
	w *world
	coord.Bus
}

func (b *bus) Publish(ctx context.Context, hs ...task.Hint) error {
	if b.w.calm.Load() {
		return b.Bus.Publish(ctx, hs...)
	}
	switch b.w.roll(8) {
	case 0:
		return nil
	case 1:
		return errStorm
	case 2:
		late, after := slices.Clone(hs), time.Duration(b.w.roll(int(2*time.Second)))
		b.w.flights.Go(func() {
			time.Sleep(after)
			_ = b.Bus.Publish(context.Background(), late...)
		})
	}
	return b.Bus.Publish(ctx, hs...)
}

func (b *bus) Subscribe(ctx context.Context, fn func([]task.Hint)) error {
	if b.w.calm.Load() || b.w.roll(4) > 0 {
		return b.Bus.Subscribe(ctx, fn)
	}
	ctx, cancel := context.WithTimeout(ctx, b.w.span(0, 3*time.Second))
	defer cancel()
	_ = b.Bus.Subscribe(ctx, fn)
	return errStorm
}

// scribe keeps the warnings of a node.
type scribe struct {
	slog.Handler
	n *node
}

func (s *scribe) Enabled(_ context.Context, l slog.Level) bool { return l >= slog.LevelWarn }

func (s *scribe) WithAttrs([]slog.Attr) slog.Handler { return s }
func (s *scribe) WithGroup(string) slog.Handler      { return s }

func (s *scribe) Handle(_ context.Context, r slog.Record) error {
	text := r.Message
	r.Attrs(func(a slog.Attr) bool {
		text += " " + a.String()
		return true
	})
	s.n.w.say(s.n, text)
	return nil
}
