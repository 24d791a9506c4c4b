package enginetest

import (
	"context"
	"time"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

// countedAnew starts a node on a store that has tasks: waiting, in error, and ready in several groups and
// priorities. It knows how many there are, and since when the oldest one is ready.
func countedAnew(n *node) {
	set := types(10, nil, "mail", "bad")
	p := set.Types["mail"]
	p.Paused, p.Limits = true, []string{"customer"}
	set.Types["mail"] = p
	set.Limits["customer"] = policy.Limit{Name: "customer", Max: 1, Per: "ordering_key"}
	n.start(set, map[string]handle{"bad": func(context.Context, *task.Task) ([]byte, error) { return nil, task.Permanent(errNo) }})
	later := uint8(9)
	first := n.submit(engine.Request{Type: "mail", OrderingKey: "b", Priority: &later})[0]
	n.submit(repeat(20, func(i int) engine.Request {
		return engine.Request{Type: "mail", OrderingKey: string(rune('a' + i%4)), Priority: []*uint8{nil, &later}[i%2]}
	})...)
	for _, id := range n.submit(repeat(3, func(int) engine.Request { return engine.Request{Type: "bad"} })...) {
		n.expect(id, task.Error)
	}
	n.submit(engine.Request{Type: "bad", At: time.Now().Add(time.Hour)})
	n.close()
	n.open()

	var found engine.Depths
	n.eventually("the node has looked", func() (ok bool) { found, ok = n.Depths(); return ok })
	want := []engine.Depth{{Type: "bad", Waiting: 1, Error: 3, Kinds: 1}, {Type: "mail", Submitted: 21, Oldest: n.get(first).ReadyAt}}
	for i, d := range found.Types {
		if i >= len(want) || !d.Oldest.Equal(want[i].Oldest) {
			n.Fatalf("found %+v, want %+v", found.Types, want)
		}
		if d.Oldest = want[i].Oldest; d != want[i] {
			n.Errorf("found %+v, want %+v", d, want[i])
		}
	}
	if len(found.Types) != len(want) {
		n.Errorf("found %+v, want %+v", found.Types, want)
	}
	n.demands("mail", 21, want[1].Oldest)
	n.demands("bad", 0, time.Time{})
	n.empty()
}

// demands checks how many tasks of a type are ready, and since when.
func (n *node) demands(typ string, ready int64, oldest time.Time) {
	n.Helper()
	if d, err := n.Demand(n.ctx, typ, false); err != nil || d.Ready != ready || !d.Oldest.IsZero() {
		n.Errorf("the demand of %s without its oldest task is %+v, %v, want %d", typ, d, err, ready)
	}
	d, err := n.Demand(n.ctx, typ, true)
	if err != nil || d.Ready != ready || d.Running != 0 || !d.Oldest.Equal(oldest) || d.More || d.At.IsZero() {
		n.Errorf("the demand of %s is %+v, %v, want %d since %v", typ, d, err, ready, oldest)
	}
}

// empty cancels all tasks that wait for a time or for a slot.
func (n *node) empty() {
	n.Helper()
	ts, _, err := n.List(n.ctx, storage.Filter{States: []task.State{task.Waiting, task.Submitted}}, task.ID{}, 1000)
	if err != nil {
		n.Fatal(err)
	}
	for _, t := range ts {
		if _, err := n.Cancel(n.ctx, task.Ref{ID: t.ID}, "not needed any more"); err != nil {
			n.Fatal(err)
		}
	}
}
