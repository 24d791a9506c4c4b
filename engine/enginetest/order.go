package enginetest

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/task"
)

var orderScenarios = []scenario{
	{"the highest priority starts first", func(n *node) {
		gate := make(chan struct{})
		n.start(types(1, nil, "mail", "gate"), map[string]handle{"mail": done, "gate": until(gate)})
		n.submit(engine.Request{Type: "gate"})
		var want []task.ID
		byPriority := make(map[uint8]task.ID)
		for _, p := range []uint8{7, 1, 4, 2, 9, 0} {
			byPriority[p] = n.submit(engine.Request{Type: "mail", Priority: &p})[0]
		}
		for p := range task.LowestPriority + 1 {
			if id, ok := byPriority[p]; ok {
				want = append(want, id)
			}
		}
		close(gate)
		n.ranOnce(want...)
		if got := n.ledger.sequence()[1:]; !slices.Equal(got, want) {
			n.Errorf("they started in the order %v, want %v", got, want)
		}
	}},
	{"tasks of equal priority start in the order of their submits", func(n *node) {
		gate := make(chan struct{})
		n.start(types(1, nil, "mail", "gate"), map[string]handle{"mail": done, "gate": until(gate)})
		n.submit(engine.Request{Type: "gate"})
		var want []task.ID
		for range 10 {
			want = append(want, n.submit(repeat(30, func(int) engine.Request { return engine.Request{Type: "mail"} })...)...)
		}
		close(gate)
		n.ranOnce(want...)
		if got := n.ledger.sequence()[1:]; !slices.Equal(got, want) {
			n.Error("they did not start in the order of their submits")
		}
	}},
	{"types that share a limit take turns in the order of their submits", fairness},
	{"a busy type does not starve another that shares its limit", refills},
	{"with ageing an old task of a low priority starts before a new one of a high priority", ageing},
}

// ageing adds many more tasks than memory may hold, half of them before a restart.
func ageing(n *node) {
	set := types(1, nil, "mail")
	mail := set.Types["mail"]
	mail.Ageing = time.Minute
	set.Types["mail"] = mail
	n.config.QueueLookAhead = 20
	n.start(set, map[string]handle{"mail": done})
	if err := n.Pause(n.ctx, "mail"); err != nil {
		n.Fatal(err)
	}
	type placed struct {
		id task.ID
		at time.Time // when it would have become ready if its priority were the best
	}
	var want []placed
	now := time.Now().Truncate(time.Second)
	add := func(first, count int) {
		reqs := repeat(count, func(i int) engine.Request {
			i += first
			return engine.Request{Type: "mail", Priority: new(uint8(7 * i % 10)), At: now.Add(-time.Duration(i*37%1500) * time.Second)}
		})
		for i, id := range n.submit(reqs...) {
			want = append(want, placed{id, reqs[i].At.Add(time.Duration(*reqs[i].Priority) * time.Minute)})
		}
	}
	add(0, 200)
	n.close()
	n.reopenStore()
	n.open()
	add(200, 200)
	if err := n.Unpause(n.ctx, "mail"); err != nil {
		n.Fatal(err)
	}
	slices.SortStableFunc(want, func(a, b placed) int { return a.at.Compare(b.at) })
	var ids []task.ID
	for _, w := range want {
		ids = append(ids, w.id)
	}
	n.ranOnce(ids...)
	if got := n.ledger.sequence(); !slices.Equal(got, ids) {
		n.Error("they did not start in the order of their times and priorities")
	}
}

// sharing returns types that share a limit of one running task.
func sharing(names ...string) policy.Set {
	set := types(10, func(p *policy.Type) { p.Limits = []string{"shared"} }, names...)
	set.Limits["shared"] = policy.Limit{Name: "shared", Max: 1}
	return set
}

func fairness(n *node) {
	names := []string{"alpha", "midway", "zulu"}
	gate := make(chan struct{})
	n.start(sharing(names...), map[string]handle{"alpha": until(gate), "midway": until(gate), "zulu": until(gate)})
	var want []task.ID
	for i := range 300 {
		want = append(want, n.submit(engine.Request{Type: names[(7*i+i/5)%3]})...)
	}
	close(gate)
	n.ranOnce(want...)
	if got := n.ledger.sequence(); !slices.Equal(got, want) {
		n.Error("they did not start in the order of their submits")
	}
}

// refills submits the next task of a type before each of its tasks ends, so that the type always
// has a ready task.
func refills(n *node) {
	gate := make(chan struct{})
	var mu sync.Mutex
	var more []task.ID
	left := 200
	n.start(sharing("alpha", "zulu"), map[string]handle{
		"zulu": done,
		"alpha": func(ctx context.Context, _ *task.Task) ([]byte, error) {
			<-gate
			mu.Lock()
			left--
			again := left > 0
			mu.Unlock()
			if !again {
				return nil, nil
			}
			receipts, err := n.Submit(ctx, engine.Request{Type: "alpha"})
			if err != nil {
				return nil, err
			}
			mu.Lock()
			more = append(more, receipts[0].ID)
			mu.Unlock()
			return nil, nil
		},
	})
	n.submit(repeat(5, func(int) engine.Request { return engine.Request{Type: "alpha"} })...)
	zulus := n.submit(repeat(20, func(int) engine.Request { return engine.Request{Type: "zulu"} })...)
	close(gate)
	n.ranOnce(zulus...)
	if err := n.WaitType(n.ctx, "alpha"); err != nil {
		n.Fatal(err)
	}
	began := n.ledger.sequence()
	for _, id := range more {
		if slices.Index(began, id) < slices.Index(began, zulus[len(zulus)-1]) {
			n.Errorf("a task was started before others that were submitted before it")
		}
	}
}
