package engine_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/taskengine/taskengine/coord/local"
	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/storage/memory"
	"github.com/taskengine/taskengine/task"
)

// group is a cluster of nodes on one store in memory.
type group struct {
	t        *testing.T
	store    *memory.Store
	first    *local.Node
	noBus    bool
	busDown  error         // of buses that lose hints; nil for none
	ahead    *atomic.Int64 // how far the clock of the test is ahead of the clock that the nodes share; nil if they share none
	apart    time.Duration // how far the wall clock of the next node is ahead of the clock of the test; that of the one after it is behind
	observer engine.Observer
	clock    bool                              // the clock that the nodes share is not that of their membership
	settings bool                              // the nodes share settings by the coordinator, and not by the store
	change   func(*engine.Config)              // changes the configuration of each node; nil for no change
	wrap     func(*memory.Store) storage.Store // wraps the store of each node; nil for no wrapper

	mu   sync.Mutex
	runs map[task.ID][]string // guarded by mu: the nodes on which a task's handler began

	ids *task.IDs // of rows that are added without a hint to a node
}

func newGroup(t *testing.T) *group {
	return &group{t: t, store: memory.New(), first: local.New(), runs: make(map[task.ID][]string), ids: task.NewIDs([32]byte{1})}
}

// member is a node of a group.
type member struct {
	*node
	coord *local.Node
	name  string
}

// join starts a node. Its handlers note the run, and then do work.
func (g *group) join(name string, set policy.Set, work func(context.Context, *task.Task) ([]byte, error), types ...string) *member {
	g.t.Helper()
	m := &member{coord: g.first.Peer(), name: name}
	apart := g.apart
	handlers := make(map[string]task.Handler)
	for _, typ := range types {
		handlers[typ] = task.HandlerFunc(func(ctx context.Context, t *task.Task) ([]byte, error) {
			g.mu.Lock()
			g.runs[t.ID] = append(g.runs[t.ID], name)
			g.mu.Unlock()
			return work(context.WithValue(ctx, wallKey{}, apart), t)
		})
	}
	m.node = &node{t: g.t, store: g.store, config: engine.Config{
		Store: g.store, Policies: set, Handlers: handlers, Name: name, Coordinator: m.coord.Coordinator(), Observer: g.observer,
	}}
	if g.noBus {
		m.config.Coordinator.Bus = nil
	}
	if g.busDown != nil {
		m.config.Coordinator.Bus = downBus{m.coord, g.busDown}
	}
	if g.ahead != nil {
		if g.clock {
			m.config.Coordinator.Clock = common{g.ahead, apart}
		} else {
			m.config.Coordinator.Membership, m.config.Coordinator.Clock = clocked{m.coord, common{g.ahead, apart}}, common{g.ahead, apart}
		}
		m.config.SetWall(func() time.Time { return time.Now().Add(apart) })
		g.apart = -apart
	}
	if g.settings {
		m.config.Coordinator.Settings = m.coord
	}
	if g.wrap != nil {
		m.config.Store = g.wrap(g.store)
	}
	if g.change != nil {
		g.change(&m.config)
	}
	m.open()
	g.t.Cleanup(func() {
		m.close()
		if err := m.coord.Close(); err != nil {
			g.t.Error(err)
		}
	})
	return m
}

// ran returns the nodes on which a task's handler began.
func (g *group) ran(id task.ID) []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.runs[id])
}

// because checks that code is the reason why a task does not run.
func (m *member) because(id task.ID, code string) {
	m.t.Helper()
	synctest.Wait() // nodes that have just joined know each other
	_, reasons, err := m.Why(context.Background(), id)
	if err != nil || len(reasons) != 1 || reasons[0].Code != code {
		m.t.Errorf("node %s says that it is because of %+v, %v; want %s", m.name, reasons, err, code)
	}
}

func takes(d time.Duration) func(context.Context, *task.Task) ([]byte, error) {
	return func(ctx context.Context, _ *task.Task) ([]byte, error) {
		select {
		case <-time.After(d):
			return nil, nil
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// elsewhere returns an ordering key with tasks that another node than m starts.
func (g *group) elsewhere(m *member, typ string, others ...*member) string {
	g.t.Helper()
	for i := range 1000 {
		key := fmt.Sprint("key ", i)
		id := m.submit(engine.Request{Type: typ, OrderingKey: key})
		m.end(id)
		if ran := g.ran(id); len(ran) == 1 && ran[0] != m.name && (len(others) == 0 || ran[0] == others[0].name) {
			return key
		}
	}
	g.t.Fatal("everything runs on one node")
	return ""
}

func TestNodesShareTheWork(t *testing.T) {
	for _, noBus := range []bool{false, true} {
		inBubble(t, func(t *testing.T) {
			g := newGroup(t)
			g.noBus = noBus
			set := one("work", nil)
			set.Slots = 4
			a := g.join("a", set, takes(time.Second), "work")
			b := g.join("b", set, takes(time.Second), "work")
			begin := time.Now()
			var ids []task.ID
			for range 200 {
				ids = append(ids, a.submit(engine.Request{Type: "work"}))
			}
			on := make(map[string]int)
			for _, id := range ids {
				a.end(id)
				ran := g.ran(id)
				if len(ran) != 1 {
					t.Errorf("task %v ran on %v", id, ran)
				}
				on[ran[0]]++
			}
			if took := time.Since(begin); on["a"] < 60 || on["b"] < 60 || took > 40*time.Second {
				t.Errorf("%v tasks ran on each, and it took %v: the other node did not do its share", on, took)
			}
			for _, m := range []*member{a, b} {
				if s := m.Stats(); s.Wasted > 2 || s.Stale > 0 {
					t.Errorf("node %s: %+v", m.name, s)
				}
			}
		})
	}
}

func TestATaskForAnotherNodeStartsThere(t *testing.T) {
	for name, c := range map[string]struct {
		noBus bool
		after time.Duration // when the task is to run
		most  time.Duration // how late it may be
	}{
		"at once, by a hint":                   {false, 0, 10 * time.Millisecond},
		"at once, without a hint":              {true, 0, 1100 * time.Millisecond},
		"at its time, by a hint":               {false, time.Hour, 10 * time.Millisecond},
		"at its time, without a hint":          {true, time.Hour, 1100 * time.Millisecond},
		"at its time, which comes in a moment": {false, time.Millisecond, 10 * time.Millisecond},
		"soon, and it could not know before":   {true, time.Millisecond, 1100 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				g := newGroup(t)
				g.noBus = c.noBus
				var began time.Time
				a := g.join("a", one("work", nil), takes(0), "work")
				g.join("b", one("work", nil), func(context.Context, *task.Task) ([]byte, error) {
					began = time.Now()
					return nil, nil
				}, "work")
				key := g.elsewhere(a, "work")
				due := time.Now().Add(c.after)
				id := a.submit(engine.Request{Type: "work", OrderingKey: key, At: due})
				a.end(id)
				if late := began.Sub(due); !slices.Equal(g.ran(id), []string{"b"}) || late < 0 || late > c.most {
					t.Errorf("it ran on %v, %v late", g.ran(id), late)
				}
			})
		})
	}
}

func TestANodeThatIsExpelledCancelsWhatItRunsAndStartsNothing(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		g := newGroup(t)
		cancelled := make(chan struct{}, 10)
		a := g.join("a", one("work", nil), func(ctx context.Context, _ *task.Task) ([]byte, error) {
			<-ctx.Done()
			cancelled <- struct{}{}
			return nil, ctx.Err()
		}, "work")
		id, before := a.submit(engine.Request{Type: "work"}), a.Incarnation()
		time.Sleep(time.Millisecond) // its handler begins
		a.coord.Sever()
		<-cancelled
		if a.IsMember() {
			t.Error("it believes that it can prove that it is alive")
		}
		other := a.submit(engine.Request{Type: "work"})
		if ran := g.ran(other); len(ran) != 0 {
			t.Errorf("it ran on %v though that node may be dead", ran)
		}
		time.Sleep(2 * time.Second) // the node has joined again
		if a.Incarnation() == before || len(a.Members()) != 1 {
			t.Errorf("it is %v, as before %v, among %v", a.Incarnation(), before, a.Members())
		}
		if got := a.get(id); !a.IsMember() || len(got.History) != 1 || !strings.Contains(got.History[0].Error, "could not prove that it is alive") {
			t.Errorf("it is a member again: %t, and the task is %+v", a.IsMember(), got)
		}
		if ran := g.ran(other); len(ran) != 1 {
			t.Errorf("it ran on %v", ran)
		}
		for _, i := range []task.ID{id, other} {
			if _, err := a.Cancel(t.Context(), task.Ref{ID: i}, ""); err != nil {
				t.Error(err)
			}
		}
	})
}

func TestOthersTakeOverFromANodeThatDrains(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		g := newGroup(t)
		a := g.join("a", one("work", nil), takes(20*time.Second), "work")
		b := g.join("b", one("work", nil), takes(0), "work")
		last := a.submit(engine.Request{Type: "work"})
		closed := make(chan struct{})
		go func() {
			defer close(closed)
			if err := a.Close(t.Context()); err != nil {
				t.Error(err)
			}
		}()
		time.Sleep(time.Second)
		begin := time.Now()
		for i := range 100 { // some of the keys were a's
			b.end(b.submit(engine.Request{Type: "work", OrderingKey: fmt.Sprint(i)}))
		}
		if took := time.Since(begin); took > 0 {
			t.Errorf("they took %v while the other node drained", took)
		}
		b.expect(last, task.Processing)
		<-closed
		b.expect(last, task.Done)
	})
}

func TestATaskWaitsForANodeThatHandlesItsType(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		g := newGroup(t)
		a := g.join("a", one("mail", nil), takes(0), "mail")
		b := g.join("b", one("mail", nil), takes(0), "mail", "rare")
		b.close()
		lost := a.submit(engine.Request{Type: "rare"})
		time.Sleep(time.Hour)
		a.expect(lost, task.Submitted)
		a.because(lost, engine.CodeNoHandler)
		g.join("c", one("mail", nil), takes(0), "rare")
		a.end(lost)
		if ran := g.ran(lost); !slices.Equal(ran, []string{"c"}) {
			t.Errorf("it ran on %v", ran)
		}
	})
}

func TestATaskIsCancelledWhereverItRuns(t *testing.T) {
	for _, c := range []struct {
		noBus bool
		most  time.Duration // until the context of its handler ends
	}{{false, 10 * time.Millisecond}, {true, 1100 * time.Millisecond}} {
		inBubble(t, func(t *testing.T) {
			g := newGroup(t)
			g.noBus = c.noBus
			cancelled := make(chan struct{}, 2)
			a := g.join("a", one("work", nil), takes(0))
			b := g.join("b", one("work", nil), func(ctx context.Context, _ *task.Task) ([]byte, error) {
				<-ctx.Done()
				cancelled <- struct{}{}
				return nil, ctx.Err()
			}, "work")
			kept, gone := a.submit(engine.Request{Type: "work"}), a.submit(engine.Request{Type: "work"})
			time.Sleep(3 * time.Second) // a may not have known of b yet
			a.expect(kept, task.Processing)
			for _, id := range []task.ID{kept, gone} {
				if _, err := a.Cancel(t.Context(), task.Ref{ID: id}, "no longer wanted"); err != nil {
					t.Fatal(err)
				}
			}
			if now := a.expect(gone, task.Cancelled); c.noBus { // the row is deleted at once
				if removed, err := g.store.Delete(t.Context(), now.Ref()); err != nil || !removed[0] {
					t.Fatal(removed, err)
				}
			}
			begin := time.Now()
			<-cancelled
			<-cancelled
			if late := time.Since(begin); late > c.most {
				t.Errorf("its handlers were cancelled after %v", late)
			}
			time.Sleep(5 * time.Second)
			a.expect(kept, task.Cancelled)
			if s := b.Stats(); s.Running != 0 {
				t.Errorf("%d still run", s.Running)
			}
		})
	}
}

func TestNothingIsLostOrDoubledWhileNodesComeAndGo(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		g := newGroup(t)
		set := one("work", nil)
		set.Slots = 5
		keeper := g.join("keeper", set, takes(30*time.Millisecond), "work")
		var ids []task.ID
		var others []*member
		for i := range 40 {
			if i%4 == 0 {
				others = append(others, g.join(fmt.Sprint("node ", i), set, takes(30*time.Millisecond), "work"))
			}
			if i%5 == 4 {
				others[0].close()
				others = others[1:]
			}
			for j := range 50 {
				r := engine.Request{Type: "work"}
				switch j % 4 {
				case 0:
					r.OrderingKey = fmt.Sprint(j)
				case 1:
					r.At = time.Now().Add(time.Duration(j) * 20 * time.Millisecond)
				}
				from := keeper
				if len(others) > 0 && j%2 == 0 {
					from = others[j%len(others)]
				}
				ids = append(ids, from.submit(r))
			}
			time.Sleep(200 * time.Millisecond)
		}
		for _, id := range ids {
			keeper.end(id)
			keeper.expect(id, task.Done)
			if ran := g.ran(id); len(ran) != 1 {
				t.Errorf("task %v ran on %v", id, ran)
			}
		}
	})
}

func TestAStoreThatNodesCannotShareIsRefused(t *testing.T) {
	type alone struct{ storage.Store } // hides all other methods
	_, err := engine.Open(t.Context(), engine.Config{Store: alone{memory.New()}, Policies: one("work", nil), Coordinator: local.New().Coordinator()})
	if err == nil || !strings.Contains(err.Error(), "shared") {
		t.Errorf("got %v", err)
	}
}

func TestANodeSaysWhichOtherIsToStartATask(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		g := newGroup(t)
		set := one("work", nil)
		set.Slots = 1
		a := g.join("a", set, takes(time.Hour), "work")
		g.join("b", set, takes(time.Hour), "work")
		time.Sleep(time.Second)
		said := make(map[string]bool)
		for i := range 20 {
			id := a.submit(engine.Request{Type: "work", OrderingKey: fmt.Sprint(i)})
			_, reasons, err := a.Why(t.Context(), id)
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range reasons {
				said[r.Code] = true
			}
		}
		if !said[engine.CodeElsewhere] || !said[engine.CodeLimit] {
			t.Errorf("said: %v", said)
		}
	})
}
