package enginetest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/engine/policy"
	"github.com/taskengine/taskengine/engine/task"
)

var attemptScenarios = []scenario{
	{"a handler that always fails is called five times and then it is an error", func(n *node) {
		set := types(10, func(p *policy.Type) { p.Retry.Max = 5 }, "flaky")
		n.start(set, map[string]handle{"flaky": func(context.Context, *task.Task) ([]byte, error) { return nil, errNo }})
		for _, id := range n.submit(repeat(20, func(int) engine.Request { return engine.Request{Type: "flaky"} })...) {
			t := n.expect(id, task.Error)
			if runs := n.ledger.runs(id); runs != 5 || t.Attempt != 5 || len(t.History) != 5 || !strings.Contains(t.LastError, "no") {
				n.Errorf("after %d runs: attempt %d, %d in its history, last error %q", runs, t.Attempt, len(t.History), t.LastError)
			}
		}
	}},
	{"a task that runs again starts its attempts anew", func(n *node) {
		var attempts []uint32 // one attempt at a time
		n.start(types(10, nil, "tick"), map[string]handle{"tick": func(_ context.Context, t *task.Task) ([]byte, error) {
			attempts = append(attempts, t.Attempt)
			switch len(attempts) {
			case 1, 3, 4, 6:
				return nil, errNo
			case 8:
				return nil, nil
			}
			return nil, task.Again(time.Now().Add(time.Millisecond))
		}})
		n.expect(n.submit(engine.Request{Type: "tick"})[0], task.Done)
		if want := []uint32{1, 2, 1, 2, 3, 1, 2, 1}; !slices.Equal(attempts, want) {
			n.Errorf("attempts were numbered %v, want %v", attempts, want)
		}
	}},
	{"a handler that panics frees its slots and is called again", func(n *node) {
		set := types(1, func(p *policy.Type) { p.Concurrency, p.Limits = 1, []string{"one"} }, "panics")
		set.Limits["one"] = policy.Limit{Name: "one", Max: 1}
		n.start(set, map[string]handle{"panics": func(_ context.Context, t *task.Task) ([]byte, error) {
			if t.Attempt == 1 {
				panic("oh")
			}
			return nil, nil
		}})
		for _, id := range n.submit(repeat(30, func(int) engine.Request { return engine.Request{Type: "panics"} })...) {
			if t := n.expect(id, task.Done); t.Attempt != 2 || !strings.Contains(t.History[0].Error, "panic: oh") {
				n.Errorf("attempt %d, history %+v", t.Attempt, t.History)
			}
		}
	}},
	{"crashes in a row are counted until the task is put aside", func(n *node) {
		set := types(10, func(p *policy.Type) { p.MaxCrashes = 3 }, "crashes")
		n.start(set, map[string]handle{"crashes": crash})
		id := n.submit(engine.Request{Type: "crashes"})[0]
		if t := n.expect(id, task.Error); t.Crashes != 3 || n.ledger.runs(id) != 3 || !strings.Contains(t.LastError, "quarantined") {
			n.Errorf("%d crashes in %d runs: %q", t.Crashes, n.ledger.runs(id), t.LastError)
		}
	}},
	{"an attempt without an answer is not repeated if it may run at most once", func(n *node) {
		set := types(10, func(p *policy.Type) { p.Delivery = policy.AtMostOnce }, "pay")
		n.start(set, map[string]handle{"pay": crash})
		id := n.submit(engine.Request{Type: "pay"})[0]
		if t := n.expect(id, task.Error); n.ledger.runs(id) != 1 || !strings.Contains(t.LastError, "may have taken effect") {
			n.Errorf("%d runs: %q", n.ledger.runs(id), t.LastError)
		}
	}},
	{"a handler that ignores its timeout keeps its slot and its late answer counts for nothing", lateAnswer},
	{"an attempt that ran out of time is saved and tried again", func(n *node) {
		set := types(10, func(p *policy.Type) { p.Timeout.Run = 20 * time.Millisecond }, "slow")
		n.start(set, map[string]handle{"slow": func(ctx context.Context, t *task.Task) ([]byte, error) {
			if t.Attempt == 1 {
				<-ctx.Done()
				return nil, context.Cause(ctx)
			}
			return nil, nil
		}})
		for _, id := range n.submit(repeat(20, func(int) engine.Request { return engine.Request{Type: "slow"} })...) {
			// A machine that is busy may let a later attempt run out of time, too.
			if t := n.expect(id, task.Done); t.Attempt < 2 || t.History[0].Outcome != task.TimedOut {
				n.Errorf("attempt %d, history %+v", t.Attempt, t.History)
			}
		}
	}},
}

func crash(context.Context, *task.Task) ([]byte, error) {
	return nil, fmt.Errorf("process 7: %w", task.ErrCrashed)
}

func lateAnswer(n *node) {
	set := types(1, func(p *policy.Type) { p.Timeout.Run, p.Timeout.Grace = 10*time.Millisecond, 10*time.Millisecond }, "deaf")
	set.Types["next"] = types(1, nil, "next").Types["next"]
	gate := make(chan struct{})
	n.start(set, map[string]handle{
		"next": done,
		"deaf": func(ctx context.Context, t *task.Task) ([]byte, error) {
			if t.Attempt == 1 {
				<-gate
			}
			return fmt.Appendf(nil, "answer %d", t.Attempt), nil
		},
	})
	id := n.submit(engine.Request{Type: "deaf"})[0]
	next := n.submit(engine.Request{Type: "next"})[0]
	n.eventually("the attempt is given up", func() bool { return n.Stats().Abandoned == 1 })
	n.eventually("its end is saved", func() bool { return n.get(id).State != task.Processing })
	if t := n.get(next); t.State != task.Submitted || n.Stats().Running != 1 {
		n.Errorf("the slot of a handler that still runs was given to another, which is %v", t.State)
	}
	close(gate)
	n.ranOnce(next)
	t := n.expect(id, task.Done)
	if string(t.Result) != "answer 2" || t.History[0].Outcome != task.TimedOut || n.Stats().Stale != 1 {
		n.Errorf("the result is %q, the history %+v, and %d answers were late", t.Result, t.History, n.Stats().Stale)
	}
}
