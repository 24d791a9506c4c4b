package enginetest

import (
	"context"
	"time"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/task"
)

// changedLive changes limits while tasks run, and restarts the engine. The changes hold before and
// after, until they are unset.
func changedLive(n *node) {
	limits := map[string]int{"acme": 3, "beta": 5, "gamma": 1}
	set := types(100, nil, "pay")
	p := set.Types["pay"]
	p.Limits = []string{"partner"}
	set.Types["pay"] = p
	set.Limits["all"] = policy.Limit{Name: "all", Max: 50}
	set.Limits["partner"] = policy.Limit{Name: "partner", Of: "all", Max: 1, Per: "payload.partner"}
	g := newGauge(n.Errorf, limits)
	gate := make(chan struct{})
	n.start(set, map[string]handle{"pay": func(ctx context.Context, t *task.Task) ([]byte, error) {
		defer g.enter(1, partnerOf(t))()
		return until(gate)(ctx, t)
	}})
	change := func(value string, s engine.LimitSetting) {
		s.Limit, s.Value, s.By = "partner", value, "the test"
		if _, err := n.SetLimit(n.ctx, s, nil); err != nil {
			n.Fatal(err)
		}
	}
	three, five := 3, 5
	change("acme", engine.LimitSetting{Max: &three})
	change("be*", engine.LimitSetting{Max: &five})
	change("gamma", engine.LimitSetting{Paused: true})
	var ids []task.ID
	for _, name := range []string{"acme", "beta", "gamma"} {
		ids = append(ids, n.submit(repeat(20, func(int) engine.Request {
			return engine.Request{Type: "pay", Payload: partner(name)}
		})...)...)
	}
	full := func() bool { return g.running("acme") == three && g.running("beta") == five }
	n.eventually("as many run as the changed limits allow", full)
	before, err := n.LimitSettings(n.ctx)
	if err != nil {
		n.Fatal(err)
	}
	close(gate)
	if err := n.WaitTasks(n.ctx, ids[:40]...); err != nil {
		n.Fatal(err)
	}
	n.close()
	n.reopenStore()

	gate = make(chan struct{})
	n.open()
	after, err := n.LimitSettings(n.ctx)
	if err != nil || len(after) != 3 {
		n.Fatalf("after the restart the settings are %+v, %v", after, err)
	}
	for i, s := range after {
		if was := before[i]; s.Value != was.Value || s.Version != was.Version || s.By != "the test" || !s.At.Equal(was.At) || time.Since(s.At) > time.Hour {
			n.Errorf("after the restart there is %+v, and before %+v", s, was)
		}
	}
	more := n.submit(repeat(40, func(i int) engine.Request {
		return engine.Request{Type: "pay", Payload: partner([]string{"acme", "beta"}[i%2])}
	})...)
	n.eventually("as many run as the changed limits allow", full)
	for _, id := range ids[40:] {
		if t := n.get(id); t.State != task.Submitted {
			n.Errorf("a task of a paused value is %v", t.State)
		}
	}
	close(gate)
	if err := n.WaitTasks(n.ctx, more...); err != nil {
		n.Fatal(err)
	}
	if err := n.UnsetLimit(n.ctx, "partner", "gamma", nil); err != nil {
		n.Fatal(err)
	}
	n.ranOnce(append(ids, more...)...)
}
