package pairs

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/coord/local"
	"github.com/taskengine/taskengine/engine/enginetest"
	"github.com/taskengine/taskengine/storage/memory"
	"github.com/taskengine/taskengine/task"
)

func TestMemoryAndLocal(t *testing.T) {
	t.Parallel()
	enginetest.RunCluster(t, enginetest.Cluster{New: func(t *testing.T, s enginetest.Setup) func() *enginetest.Member {
		store, first := memory.New(), local.New()
		t.Cleanup(func() {
			if err := first.Close(); err != nil {
				t.Error(err)
			}
			if err := store.Close(); err != nil {
				t.Error(err)
			}
		})
		return func() *enginetest.Member {
			toStore, toMembers, toBus, toLimits := newLink(), newLink(), newLink(), newLink()
			n := first.Peer()
			c := coordinator{n, toMembers, toBus, toLimits, new(sync.Map)}
			m := &enginetest.Member{
				Store:       &linked{Store: store, link: toStore},
				Coordinator: c.ports(),
				ToStore:     toStore, ToCoordinator: toMembers, ToBus: toBus, ToLimits: toLimits,
				Disconnect: func() {
					if err := n.Close(); err != nil {
						t.Error(err)
					}
				},
			}
			if s.Ahead != 0 {
				m.Clock = clock{s.Ahead}
			}
			return m
		}
	}})
}

// clock is a clock that nodes share.
type clock struct {
	ahead time.Duration // of that of this process
}

// ClockAt implements [coord.Clock].
func (c clock) ClockAt(t time.Time) (time.Time, time.Duration, bool) {
	return t.Add(c.ahead), time.Millisecond, true
}

// coordinator is a node of a cluster in memory, with links that can be cut. A node that is cut off loses at once
// all that it holds; others get its permits after lapse.
type coordinator struct {
	*local.Node
	members, bus, limits *link
	cutOff               *sync.Map // the ids of holders that the cut of limits has ended
}

// ports returns the coordinator by its ports, with the links.
func (c coordinator) ports() coord.Coordinator {
	return coord.Coordinator{Membership: c, Elector: c, Bus: c, Settings: c, Semaphore: c, Rates: c}
}

// Identity implements [coord.Membership].
func (coordinator) Identity(context.Context) (coord.Identity, error) { return coord.LocalIdentity, nil }

// Join implements [coord.Membership].
func (c coordinator) Join(ctx context.Context, self coord.Member, fn func([]coord.Member)) error {
	return c.members.hold(ctx, func(ctx context.Context) error { return c.Node.Join(ctx, self, fn) })
}

// Lead implements [coord.Elector].
func (c coordinator) Lead(ctx context.Context, role string, fn func(context.Context) error) error {
	for {
		if err := c.members.wait(ctx); err != nil {
			return err
		}
		err := c.members.hold(ctx, func(ctx context.Context) error { return c.Node.Lead(ctx, role, fn) })
		if ctx.Err() != nil || c.members.err() == nil {
			return err
		}
	}
}

// Settings implements [coord.Config].
func (c coordinator) Settings(ctx context.Context, name string) ([]coord.Setting, error) {
	if err := c.members.err(); err != nil {
		return nil, err
	}
	return c.Node.Settings(ctx, name)
}

// Swap implements [coord.Config].
func (c coordinator) Swap(ctx context.Context, name, scope string, version uint64, value []byte) (coord.Setting, bool, error) {
	if err := c.members.err(); err != nil {
		return coord.Setting{}, false, err
	}
	return c.Node.Swap(ctx, name, scope, version, value)
}

// Watch implements [coord.Config].
func (c coordinator) Watch(ctx context.Context, name string, fn func([]coord.Setting)) error {
	return c.members.hold(ctx, func(ctx context.Context) error { return c.Node.Watch(ctx, name, fn) })
}

// Subscribe implements [coord.Bus].
func (c coordinator) Subscribe(ctx context.Context, fn func([]task.Hint)) error {
	for {
		err := c.bus.hold(ctx, func(ctx context.Context) error { return c.Node.Subscribe(ctx, fn) })
		if ctx.Err() != nil || c.bus.err() == nil {
			return err
		}
		if err := c.bus.wait(ctx); err != nil {
			return nil
		}
		fn([]task.Hint{coord.WakeAll()})
	}
}

// lapse is how long the coordinator takes to give the permits of a node that is cut off to others. Within it the node
// stops its tasks under them, as nodes do with the coordinators of real clusters when leases lapse.
const lapse = time.Second

// Hold implements [coord.Semaphore].
func (c coordinator) Hold(ctx context.Context, holder task.ID, fn func([]coord.Holding)) error {
	if err := c.limits.wait(ctx); err != nil {
		return nil
	}
	h := &holdThrough{fn: fn}
	return c.limits.hold(ctx, func(cut context.Context) error {
		held, end := context.WithCancel(context.WithoutCancel(ctx))
		ended := make(chan error, 1)
		go func() { ended <- c.Node.Hold(held, holder, h.tell) }()
		select {
		case err := <-ended:
			end()
			return err
		case <-cut.Done():
		}
		if ctx.Err() != nil {
			end()
			return <-ended
		}
		c.cutOff.Store(holder, true)
		h.stop()
		time.AfterFunc(lapse, end)
		return errCut
	})
}

// holdThrough passes holdings on until the link is cut.
type holdThrough struct {
	fn      func([]coord.Holding)
	mu      sync.Mutex
	stopped bool // guarded by mu
}

func (h *holdThrough) tell(all []coord.Holding) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.stopped {
		h.fn(all)
	}
}

func (h *holdThrough) stop() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.stopped = true
}

// Order implements [coord.Semaphore].
func (c coordinator) Order(holder task.ID, orders ...coord.Order) {
	if _, isCut := c.cutOff.Load(holder); !isCut {
		c.Node.Order(holder, orders...)
	}
}

// Holds implements [coord.Semaphore].
func (c coordinator) Holds(holder task.ID) bool {
	_, isCut := c.cutOff.Load(holder)
	return !isCut && c.Node.Holds(holder)
}

// Holders implements [coord.Semaphore].
func (c coordinator) Holders(ctx context.Context, name string) ([]coord.Holder, error) {
	if err := c.limits.err(); err != nil {
		return nil, err
	}
	return c.Node.Holders(ctx, name)
}

// Draw implements [coord.Rates].
func (c coordinator) Draw(ctx context.Context, draws ...coord.Draw) ([]coord.Drawn, error) {
	if err := c.limits.err(); err != nil {
		return nil, err
	}
	return c.Node.Draw(ctx, draws...)
}
