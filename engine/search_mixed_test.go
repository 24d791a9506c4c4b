package engine_test

import (
	"context"
	"encoding/json"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/storage/memory"
	"github.com/taskengine/taskengine/task"
)

// gate keeps nodes from joining a cluster.
type gate struct {
	open atomic.Pointer[chan struct{}] // closed while nodes may join
}

func newGate() *gate {
	g := new(gate)
	g.shut()
	g.lift()
	return g
}

func (g *gate) shut() { g.open.Store(new(make(chan struct{}))) }

func (g *gate) lift() { close(*g.open.Load()) }

// gated is a membership behind a gate.
type gated struct {
	coord.Membership
	gate *gate
}

// Join implements [coord.Membership].
func (g gated) Join(ctx context.Context, self coord.Member, fn func([]coord.Member)) error {
	select {
	case <-ctx.Done():
		return nil
	case <-*g.gate.open.Load():
	}
	return g.Membership.Join(ctx, self, fn)
}

// ruledStore is a store to which other programs add tasks by the rules that were stored last. It reports an error when rows that they add
// have neither values nor [task.Unread] while a search relies on the index of the type pay.
type ruledStore struct {
	*memory.Store
	t     *testing.T
	rules *lastRules
}

// lastRules are the rules of the type pay that were stored last.
type lastRules struct {
	mu       sync.Mutex
	searched bool // guarded by mu: rows that other programs add are Unread
}

// SetRules implements [storage.Ruled].
func (r ruledStore) SetRules(ctx context.Context, rules ...storage.TypeRules) error {
	r.rules.mu.Lock()
	defer r.rules.mu.Unlock()
	for _, one := range rules {
		if one.Type == "pay" {
			r.rules.searched = one.Searched
		}
	}
	return r.check(ctx)
}

// Rules implements [storage.Ruled].
func (r ruledStore) Rules(context.Context, string) (storage.TypeRules, error) {
	r.rules.mu.Lock()
	defer r.rules.mu.Unlock()
	return storage.TypeRules{Type: "pay", Searched: r.rules.searched}, nil
}

// SwapSetting implements [storage.Shared].
func (r ruledStore) SwapSetting(ctx context.Context, name string, old, value []byte) (bool, error) {
	r.rules.mu.Lock()
	defer r.rules.mu.Unlock()
	swapped, err := r.Store.SwapSetting(ctx, name, old, value)
	if err == nil {
		err = r.check(ctx)
	}
	return swapped, err
}

// check is called with rules.mu held.
func (r ruledStore) check(ctx context.Context) error {
	value, err := r.Setting(ctx, "search")
	if err != nil || len(value) == 0 {
		return err
	}
	var d struct {
		Types map[string]map[string]struct{ Complete bool }
	}
	if err := json.Unmarshal(value, &d); err != nil {
		return err
	}
	for attribute, is := range d.Types["pay"] {
		if is.Complete && !r.rules.searched {
			r.t.Errorf("searches rely on an index of %s, and other programs add rows by rules of a node that does not declare it", attribute)
		}
	}
	return nil
}

// indexed fails the test unless a search of a node reads the index of the attribute.
func (m *member) indexed(when string) {
	m.t.Helper()
	if _, index := m.found("17"); index != "payload.customer" {
		m.t.Errorf("%s: the index is %q", when, index)
	}
}

// Rules of types are those of the node that has stored them last. One with an older configuration that leaves, is cut off or joins slowly leaves none
// that a search would trust in vain.
func TestOtherProgramsAddRowsBySearchedRulesWhileAnIndexIsComplete(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		g, rules, gate := newGroup(t), new(lastRules), newGate()
		g.wrap = func(s *memory.Store) storage.Store { return ruledStore{s, t, rules} }
		g.change = func(c *engine.Config) { c.Coordinator.Membership = gated{c.Coordinator.Membership, gate} }
		idle := func(context.Context, *task.Task) ([]byte, error) { return nil, nil }
		first := g.join("first", searched("payload.customer"), idle)
		time.Sleep(time.Minute)
		first.indexed("alone")

		older := g.join("older", searched(), idle)
		time.Sleep(time.Minute) // the first one has stored its rules again
		if err := older.Adopt(context.Background(), searched(), nil); err != nil {
			t.Fatal(err)
		}
		older.close()
		time.Sleep(time.Minute)
		first.indexed("after a node that has stored its rules once more")

		cut := g.join("cut", searched(), idle)
		gate.shut()
		cut.coord.Sever()
		time.Sleep(5 * time.Minute)
		first.indexed("beside a node that is cut off")
		gate.lift()
		time.Sleep(time.Minute)
		cut.close()
		time.Sleep(time.Minute)
		first.indexed("after a node that was cut off")

		gate.shut()
		joined := make(chan *member)
		go func() { joined <- g.join("slow", searched(), idle) }()
		time.Sleep(time.Minute)
		gate.lift()
		(<-joined).close()
		time.Sleep(time.Minute)
		first.indexed("after a node that has joined slowly")
		first.close()
	})
}

// A node with an older configuration that was cut off joins again. The index holds until it withdraws the attributes, and so do the rows that it adds.
func TestANodeThatJoinsAgainAddsRowsThatASearchFinds(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		g, gate := newGroup(t), newGate()
		g.change = func(c *engine.Config) { c.Coordinator.Membership = gated{c.Coordinator.Membership, gate} }
		idle := func(context.Context, *task.Task) ([]byte, error) { return nil, nil }
		first := g.join("first", searched("payload.customer"), idle)
		older := g.join("older", searched(), idle)
		gate.shut()
		older.coord.Sever()
		time.Sleep(time.Minute + 1234*time.Millisecond)
		first.indexed("beside a node that is cut off")
		older.pay("17")
		if n, _ := first.found("17"); n != 1 {
			t.Errorf("%d tasks of a node that is cut off are found", n)
		}
		gate.lift()
		synctest.Wait()
		if !older.IsMember() {
			t.Fatal("it has not joined again")
		}
		older.pay("17")
		if n, index := first.found("17"); n != 2 {
			t.Errorf("%d tasks of a node that has joined again are found by %q", n, index)
		}
		time.Sleep(time.Minute)
		if n, index := first.found("17"); n != 2 || index != "" {
			t.Errorf("%d tasks are found by %q", n, index)
		}
		older.close()
		first.close()
	})
}
