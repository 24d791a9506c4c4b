package enginetest

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/storage/storagetest"
	"github.com/taskengine/taskengine/task"
)

var keyScenarios = []scenario{
	{"tasks of ordering keys run one at a time in the order of their submits, over a restart", func(n *node) {
		const keys, each = 3, 40
		g := newGauge(n.Errorf, map[string]int{"0": 1, "1": 1, "2": 1})
		handlers := map[string]handle{"mail": g.keyed(done), "sms": g.keyed(done)}
		n.start(types(2, nil, "mail", "sms"), handlers)
		ids := n.submit(repeat(keys*each, func(i int) engine.Request {
			r := engine.Request{Type: "mail", OrderingKey: fmt.Sprint(i % keys)}
			if i/keys%10 == 9 { // mostly the next task of a key is of the same queue
				r.Type = "sms"
			}
			return r
		})...)
		n.eventually("some have begun", func() bool { return n.ledger.total() > keys*each/3 })
		handedOver := n.Stats().HandedOver
		n.close()
		n.reopenStore()
		n.open()
		n.ranOnce(ids...)
		for key := range keys {
			var want []task.ID
			for i := key; i < len(ids); i += keys {
				want = append(want, ids[i])
			}
			n.beganInOrder(want)
		}
		if _, isShared := n.store.(storage.Shared); !isShared && handedOver+n.Stats().HandedOver == 0 {
			n.Error("no task was grabbed with the end of the one before")
		}
	}},
	{"the head of an ordering key starts with the priority of an urgent task behind it", inheritance},
	{"the next task of an ordering key begins when the handler of the one that was cancelled has returned", func(n *node) {
		g, stopped, began := newGauge(n.Errorf, map[string]int{"k": 1}), make(chan struct{}), make(chan task.ID, 10)
		set := types(10, func(p *policy.Type) { p.Timeout.Grace = time.Hour }, "mail", "sms", "plain")
		stops := g.keyed(func(ctx context.Context, t *task.Task) ([]byte, error) {
			began <- t.ID
			if string(t.Payload) == "slow" {
				<-ctx.Done()
				<-stopped // it takes its time to stop
			}
			return nil, nil
		})
		n.start(set, map[string]handle{"mail": stops, "sms": stops, "plain": done})
		first := n.submit(engine.Request{Type: "mail", OrderingKey: "k", Payload: []byte("slow")})[0]
		receive(n, "the first has begun", began)
		next := n.submit(engine.Request{Type: "mail", OrderingKey: "k"}, engine.Request{Type: "sms", OrderingKey: "k"})
		if _, err := n.Cancel(n.ctx, task.Ref{ID: first}, ""); err != nil {
			n.Fatal(err)
		}
		n.eventually("the next one is grabbed", func() bool { return n.get(next[0]).State == task.Processing })
		n.ranOnce(n.submit(engine.Request{Type: "plain"})...) // all that was to be done until then is done
		close(stopped)
		n.ranOnce(next...)
		n.expect(first, task.Cancelled)
	}},
	{"a task of an ordering key that is tried again keeps those behind it waiting", func(n *node) {
		g := newGauge(n.Errorf, map[string]int{"k": 1})
		n.start(types(10, func(p *policy.Type) { p.Retry.Max = 3 }, "mail"), map[string]handle{"mail": g.keyed(func(_ context.Context, t *task.Task) ([]byte, error) {
			if t.Attempt < 3 && string(t.Payload) == "retry" {
				return nil, errNo
			}
			return nil, nil
		})})
		ids := n.submit(repeat(30, func(i int) engine.Request {
			r := engine.Request{Type: "mail", OrderingKey: "k"}
			if i%7 == 0 {
				r.Payload = []byte("retry")
			}
			return r
		})...)
		for i, id := range ids {
			want := 1
			if i%7 == 0 {
				want = 3
			}
			if t := n.expect(id, task.Done); n.ledger.runs(id) != want || int(t.Attempt) != want {
				n.Errorf("task %d was run %d times and counted %d attempts, want %d", i, n.ledger.runs(id), t.Attempt, want)
			}
		}
		n.beganInOrder(ids)
	}},
	{"a store that fails now and then loses, doubles and reorders nothing of an ordering key", func(n *node) {
		w := newWeather(8, func(call storagetest.Call, fault error) storagetest.Fault {
			if call == storagetest.Get {
				return storagetest.Fault{} // the reads of the test itself
			}
			return storagetest.Fault{Before: fault}
		})
		bySubmitter := stormyKeys(n, w)
		w.clear()
		for _, ids := range bySubmitter {
			n.ranOnce(ids...)
			n.beganInOrder(ids)
		}
	}},
	{"a store that does not say whether it failed reorders nothing of an ordering key", func(n *node) {
		w := newWeather(4, unsaid)
		bySubmitter := stormyKeys(n, w)
		w.clear()
		n.close()
		reopenHealthy(n)
		for _, ids := range bySubmitter {
			for _, id := range ids {
				n.expect(id, task.Done)
			}
			n.beganInOrder(ids)
		}
	}},
}

// inheritance has one slot, for which the heads of two ordering keys wait behind other tasks, and then an urgent task
// behind each of them.
func inheritance(n *node) {
	gate := make(chan struct{})
	set := types(1, func(p *policy.Type) { p.Ordering.Inherit = true }, "mail", "gate")
	n.start(set, map[string]handle{"mail": done, "gate": until(gate)})
	n.submit(engine.Request{Type: "gate"})
	mail := func(key string, priority uint8) task.ID {
		return n.submit(engine.Request{Type: "mail", OrderingKey: key, Priority: &priority})[0]
	}
	late, early := mail("late", 9), mail("early", 8)
	rest := []task.ID{mail("", 5), mail("", 5), mail("", 5), mail("other", 7)}
	soon := []task.ID{late, mail("late", 1), early, mail("early", 2)}
	for _, head := range []task.ID{late, early} {
		if t := n.get(head); t.Rank().Priority > 2 {
			n.Errorf("a head of priority %d is to run with %d, although an urgent task is behind it", t.Priority, t.Rank().Priority)
		}
	}
	close(gate)
	n.ranOnce(append(soon, rest...)...)
	got := n.ledger.sequence()[1:]
	if got[0] != late || !sameIDs(got[:4], soon) || !slices.Equal(got[4:], rest) {
		n.Errorf("they started in the order %v; want %v first, in any order that begins with the first, and then %v", got, soon, rest)
	}
	n.beganInOrder(soon[:2])
	n.beganInOrder(soon[2:])
	if t := n.get(late); t.Priority != 9 || t.Boost != 0 {
		n.Errorf("a task that has ended has priority %d and boost %d, want its own, 9", t.Priority, t.Boost)
	}
}

// sameIDs reports whether two lists have the same tasks, in any order.
func sameIDs(a, b []task.ID) bool {
	return slices.Equal(slices.SortedFunc(slices.Values(a), task.ID.Compare), slices.SortedFunc(slices.Values(b), task.ID.Compare))
}

// stormyKeys is stormy with an ordering key for each submitter. It returns the tasks of each submitter in the
// order of their submits.
func stormyKeys(n *node, w *weather) [][]task.ID {
	n.Helper()
	limits := make(map[string]int)
	for g := range stormSubmitters {
		limits[fmt.Sprint(g)] = 1
	}
	g := newGauge(n.Errorf, limits)
	return storm(n, w, g.keyed(done), func(g, i int) engine.Request {
		return engine.Request{Type: "mail", Key: fmt.Sprint(g, "/", i), OrderingKey: fmt.Sprint(g)}
	})
}

// keyed is a handler that counts in a gauge the tasks that run of their ordering key.
func (g *gauge) keyed(h handle) handle {
	return func(ctx context.Context, t *task.Task) ([]byte, error) {
		defer g.enter(1, t.OrderingKey)()
		return h(ctx, t)
	}
}

// beganInOrder checks that the tasks began for the first time in their order.
func (n *node) beganInOrder(ids []task.ID) {
	n.Helper()
	at := make(map[task.ID]int)
	for i, id := range n.ledger.sequence() {
		if _, seen := at[id]; !seen {
			at[id] = i
		}
	}
	if !slices.IsSortedFunc(ids, func(a, b task.ID) int { return at[a] - at[b] }) {
		n.Error("tasks of an ordering key did not begin in their order")
	}
}
