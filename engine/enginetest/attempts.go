package enginetest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/task"
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
	{"errors and panics together use up the attempts", func(n *node) {
		set := types(10, func(p *policy.Type) { p.Retry.Max = 5 }, "flaky")
		n.start(set, map[string]handle{"flaky": func(_ context.Context, t *task.Task) ([]byte, error) {
			if t.Attempt%2 == 0 {
				panic("oh")
			}
			return nil, errNo
		}})
		for _, id := range n.submit(repeat(20, func(int) engine.Request { return engine.Request{Type: "flaky"} })...) {
			t := n.expect(id, task.Error)
			if runs := n.ledger.runs(id); runs != 5 || len(t.History) != 5 || !strings.Contains(t.History[1].Error, "panic: oh") {
				n.Errorf("after %d runs the history is %+v", runs, t.History)
			}
		}
	}},
	{"a handler sees what was submitted, which attempt it is and until when", whatAHandlerSees},
	{"an observer hears of every attempt, once", observedAttempts},
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
	{"tasks under which their process dies do not keep those between them from being done", func(n *node) {
		set := types(3, func(p *policy.Type) { p.MaxCrashes = 2 }, "mail")
		n.start(set, map[string]handle{"mail": func(ctx context.Context, t *task.Task) ([]byte, error) {
			if string(t.Payload) == "pill" {
				return crash(ctx, t)
			}
			return nil, nil
		}})
		for range 10 {
			pill := engine.Request{Type: "mail", Payload: []byte("pill")}
			ids := n.submit(pill, engine.Request{Type: "mail"}, pill)
			n.ranOnce(ids[1])
			for _, id := range []task.ID{ids[0], ids[2]} {
				if n.expect(id, task.Error); n.ledger.runs(id) != 2 {
					n.Errorf("a task that crashes was run %d times", n.ledger.runs(id))
				}
			}
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
	{"a handler that loses control is not called again if its task may run at most once", func(n *node) {
		set := types(10, func(p *policy.Type) { p.Delivery = policy.AtMostOnce }, "panic", "goexit", "doubt")
		n.start(set, map[string]handle{
			"panic":  func(context.Context, *task.Task) ([]byte, error) { panic("oh") },
			"goexit": func(context.Context, *task.Task) ([]byte, error) { runtime.Goexit(); return nil, nil },
			"doubt":  func(context.Context, *task.Task) ([]byte, error) { return nil, task.InDoubt(errors.New("no answer")) },
		})
		for _, typ := range []string{"panic", "goexit", "doubt"} {
			id := n.submit(engine.Request{Type: typ})[0]
			if t := n.expect(id, task.Error); n.ledger.runs(id) != 1 || !strings.Contains(t.LastError, "may have taken effect") {
				n.Errorf("%s: %d runs: %q", typ, n.ledger.runs(id), t.LastError)
			}
		}
	}},
	{"an attempt that takes too long is not repeated if it may run at most once, and its late answer counts for nothing", func(n *node) {
		set := types(10, func(p *policy.Type) {
			p.Delivery, p.Timeout.Run, p.Timeout.Grace = policy.AtMostOnce, 10*time.Millisecond, 10*time.Millisecond
		}, "pay")
		gate := make(chan struct{})
		n.start(set, map[string]handle{"pay": func(context.Context, *task.Task) ([]byte, error) {
			<-gate // deaf to its context
			return []byte("late"), nil
		}})
		id := n.submit(engine.Request{Type: "pay"})[0]
		was := n.expect(id, task.Error)
		close(gate)
		n.eventually("the late answer has come", func() bool { return n.Stats().Stale == 1 && n.Stats().Running == 0 })
		if t := n.get(id); n.ledger.runs(id) != 1 || t.Version != was.Version || t.Result != nil {
			n.Errorf("after %d runs it is %v at version %d, from %d, with the result %q", n.ledger.runs(id), t.State, t.Version, was.Version, t.Result)
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
			// On a busy machine a later attempt may run out of time, too.
			if t := n.expect(id, task.Done); t.Attempt < 2 || t.History[0].Outcome != task.TimedOut {
				n.Errorf("attempt %d, history %+v", t.Attempt, t.History)
			}
		}
	}},
}

func crash(context.Context, *task.Task) ([]byte, error) {
	return nil, fmt.Errorf("process 7: %w", task.ErrCrashed)
}

// whatAHandlerSees checks the arguments of attempts of all kinds: grabbed with the submit, grabbed
// from the store, and after a failure.
func whatAHandlerSees(n *node) {
	type sight struct {
		*task.Task
		until time.Time
	}
	seen := make(chan sight, 1)
	n.start(types(10, func(p *policy.Type) { p.Timeout.Run = time.Hour }, "mail"), map[string]handle{
		"mail": func(ctx context.Context, t *task.Task) ([]byte, error) {
			until, _ := ctx.Deadline()
			seen <- sight{t.Clone(), until}
			if t.Attempt == 1 {
				return nil, errNo
			}
			return nil, nil
		},
	})
	highest := task.HighestPriority
	for i := range 2 {
		r := engine.Request{
			Type: "mail", Key: fmt.Sprint("key ", i), OrderingKey: "order", Priority: &highest,
			Payload: []byte("to you"), Headers: map[string]string{"traceparent": "00-1"},
		}
		if i == 1 { // it is grabbed from the store, not with its submit
			r.At = time.Now().Add(50 * time.Millisecond)
		}
		id := n.submit(r)[0]
		for attempt := uint32(1); attempt <= 2; attempt++ {
			got := receive(n, "an attempt", seen)
			if got.ID != id || got.Type != r.Type || got.Key != r.Key || got.OrderingKey != r.OrderingKey || got.Priority != highest ||
				string(got.Payload) != string(r.Payload) || !maps.Equal(got.Headers, r.Headers) {
				n.Errorf("of %+v it sees %+v", r, got.Task)
			}
			if got.State != task.Processing || got.Attempt != attempt || len(got.History) != int(attempt-1) || got.Owner != n.Incarnation() {
				n.Errorf("of attempt %d it sees %+v", attempt, got.Task)
			}
			if got.until.Before(got.StartedAt.Add(time.Hour)) || got.until.After(time.Now().Add(time.Hour)) {
				n.Errorf("it was started at %v and may run until %v", got.StartedAt, got.until)
			}
		}
		n.expect(id, task.Done)
	}
}

func observedAttempts(n *node) {
	const tasks, attempts = 20, 5
	var mu sync.Mutex
	inserted, started, failed := 0, 0, make(map[task.ID][]uint32) // guarded by mu
	n.config.Observer = engine.Observer{
		Inserted: func(time.Time, *task.Task) {
			mu.Lock()
			defer mu.Unlock()
			inserted++
		},
		Started: func(time.Time, *task.Task) {
			mu.Lock()
			defer mu.Unlock()
			started++
		},
		Saved: func(_ time.Time, _ task.Ref, t *task.Task) {
			mu.Lock()
			defer mu.Unlock()
			if t != nil && t.State != task.Submitted { // from waiting, which ends no attempt
				failed[t.ID] = append(failed[t.ID], t.History[len(t.History)-1].Number)
			}
		},
	}
	n.start(types(10, func(p *policy.Type) { p.Retry.Max = attempts }, "flaky"), map[string]handle{
		"flaky": func(context.Context, *task.Task) ([]byte, error) { return nil, errNo },
	})
	ids := n.submit(repeat(tasks, func(int) engine.Request { return engine.Request{Type: "flaky"} })...)
	n.wait(ids...)
	n.close() // after that, no change is reported
	for _, id := range ids {
		if want := []uint32{1, 2, 3, 4, 5}; !slices.Equal(failed[id], want) {
			n.Errorf("the attempts %v of a task were reported to have failed, want %v", failed[id], want)
		}
	}
	if inserted != tasks || started != tasks*attempts {
		n.Errorf("%d tasks and %d attempts were reported, want %d and %d", inserted, started, tasks, tasks*attempts)
	}
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
