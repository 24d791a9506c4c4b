package engine_test

import (
	"context"
	"errors"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/storage/memory"
	"github.com/taskengine/taskengine/task"
)

// decides starts a node with tasks of type t that fail. retry decides about the failures. The policy
// of the type is two attempts, a minute apart.
func decides(t *testing.T, retry func(engine.Failure) engine.Decision, change func(*engine.Config)) *node {
	t.Helper()
	n := &node{t: t, store: memory.New()}
	set := one("t", func(p *policy.Type) {
		p.Retry = policy.Retry{Max: 2, Backoff: policy.Backoff{Kind: policy.Fixed, Delays: []time.Duration{time.Minute}}}
		p.Retention.Cancelled = 0
	})
	n.config = engine.Config{Store: n.store, Policies: set, Retry: retry, Handlers: handle("t", func(_ context.Context, t *task.Task) ([]byte, error) {
		if string(t.Payload) == "panic" {
			panic("the handler")
		}
		return nil, errNo
	})}
	if change != nil {
		change(&n.config)
	}
	n.open()
	t.Cleanup(n.close)
	return n
}

func TestAFunctionDecidesWhatFollowsAFailedAttempt(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		n := decides(t, func(f engine.Failure) engine.Decision {
			switch {
			case string(f.Task.Payload) == "leave":
				return engine.Decision{}
			case f.Task.Attempt < 5: // more often than the policy of the type allows
				return engine.Decision{To: task.Waiting, At: f.At.Add(time.Hour)}
			}
			to := map[string]task.State{"error": task.Error, "failed": task.Failed, "panic": task.Error}[string(f.Task.Payload)]
			return engine.Decision{To: to, Reason: "five are enough"}
		}, nil)
		begin := time.Now()
		for payload, want := range map[string]task.State{"error": task.Error, "failed": task.Failed, "panic": task.Error, "leave": task.Error} {
			id := n.submit(engine.Request{Type: "t", Payload: []byte(payload)})
			got := n.end(id)
			attempts, took, reason := uint32(5), 4*time.Hour, "(five are enough)"
			if payload == "leave" {
				attempts, took, reason = 2, time.Minute, "(attempt 2 of 2)"
			}
			if got.State != want || got.Attempt != attempts || !strings.HasSuffix(got.LastError, reason) || got.UpdatedAt.Sub(begin) < took {
				t.Errorf("%s: it is %v after %d attempts and %v: %s", payload, got.State, got.Attempt, got.UpdatedAt.Sub(begin), got.LastError)
			}
			begin = time.Now()
		}
	})
}

// A task that a function cancels is kept as long as any cancelled one: here not at all.
func TestATaskThatAFunctionEndsIsRemovedAfterItsRetention(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		n := decides(t, func(engine.Failure) engine.Decision { return engine.Decision{To: task.Cancelled} }, nil)
		id := n.submit(engine.Request{Type: "t"})
		time.Sleep(time.Second)
		if got, err := n.Get(t.Context(), id); !errors.Is(err, task.ErrNotFound) {
			t.Errorf("it is %+v, %v", got, err)
		}
	})
}

func TestThePolicyOfTheTypeDecidesIfTheFunctionFails(t *testing.T) {
	for name, retry := range map[string]func(engine.Failure) engine.Decision{
		"panic":         func(engine.Failure) engine.Decision { panic("oh") },
		"no state":      func(f engine.Failure) engine.Decision { return engine.Decision{At: f.At} },
		"done":          func(engine.Failure) engine.Decision { return engine.Decision{To: task.Done} },
		"made up state": func(engine.Failure) engine.Decision { return engine.Decision{To: 77} },
		"too late": func(f engine.Failure) engine.Decision {
			return engine.Decision{To: task.Waiting, At: f.At.AddDate(9000, 0, 0)}
		},
		"goexit": func(engine.Failure) engine.Decision { runtime.Goexit(); return engine.Decision{} },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				var l logs
				n := decides(t, retry, func(c *engine.Config) { c.Log = slog.New(slog.NewTextHandler(&l, nil)) })
				got := n.end(n.submit(engine.Request{Type: "t"}))
				if got.State != task.Error || got.Attempt != 2 {
					t.Errorf("it is %v after %d attempts: %s", got.State, got.Attempt, got.LastError)
				}
				if !strings.Contains(l.text.String(), "Config.Retry failed") && name != "goexit" {
					t.Errorf("the node says %s", l.text.String())
				}
			})
		})
	}
}

// An attempt in doubt of an at_most_once type is never repeated, whatever a function decides.
func TestNoFunctionRunsATaskOfAtMostOnceTwice(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		again := func(f engine.Failure) engine.Decision { return engine.Decision{To: task.Waiting} }
		n := decides(t, again, func(c *engine.Config) {
			p := c.Policies.Types["t"]
			p.Delivery = policy.AtMostOnce
			c.Policies.Types["t"] = p
		})
		if got := n.end(n.submit(engine.Request{Type: "t", Payload: []byte("panic")})); got.State != task.Error || got.Attempt != 1 {
			t.Errorf("it is %v after %d attempts", got.State, got.Attempt)
		}
	})
}

// perLength is a set with a limit that allows one task at a time for each length of a payload.
func perLength() policy.Set {
	set := one("t", func(p *policy.Type) { p.Limits = []string{"length"} })
	set.Limits = map[string]policy.Limit{"length": {Name: "length", Max: 1, Per: "func.length"}}
	return set
}

func lengths(r *engine.Request) string {
	switch string(r.Payload) {
	case "panic":
		panic("oh")
	case "no text":
		return "\xff"
	case "long":
		return strings.Repeat("x", engine.MaxGroup+1)
	}
	return strings.Repeat("x", len(r.Payload))
}

func TestALimitIsPerAValueThatAFunctionComputes(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var j journal
		n := &node{t: t, store: memory.New()}
		n.config = engine.Config{
			Store: n.store, Policies: perLength(), Handlers: handle("t", j.work(time.Minute)),
			Values: map[string]func(*engine.Request) string{"length": lengths},
		}
		n.open()
		t.Cleanup(func() { n.close() })
		var ids []task.ID
		for _, payload := range []string{"a", "b", "cc", "dd", "eee"} {
			ids = append(ids, n.submit(engine.Request{Type: "t", Payload: []byte(payload)}))
		}
		time.Sleep(time.Second)
		if got := slices.Sorted(slices.Values(j.payloads())); !slices.Equal(got, []string{"a", "cc", "eee"}) {
			t.Errorf("%v run at once", got)
		}
		n.close() // waits for them
		n.open()  // the values are stored
		time.Sleep(time.Second)
		for _, id := range ids {
			n.end(id)
		}
		if j.most != 3 {
			t.Errorf("%d ran at once", j.most)
		}
		for _, payload := range []string{"panic", "no text", "long"} {
			if _, err := n.Submit(t.Context(), engine.Request{Type: "t", Payload: []byte(payload)}); !errors.Is(err, engine.ErrInvalid) {
				t.Errorf("%s: it is answered %v", payload, err)
			}
		}
	})
}

// Tasks are stored before there is the limit, also one for which the function panics.
func TestTasksFromBeforeALimitGetTheValueThatAFunctionComputes(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var j journal
		n := &node{t: t, store: memory.New()}
		n.config = engine.Config{Store: n.store, Policies: one("t", nil)}
		n.open()
		t.Cleanup(func() { n.close() })
		var ids []task.ID
		for _, payload := range []string{"a", "b", "cc", "dd", "panic", "panic"} {
			ids = append(ids, n.submit(engine.Request{Type: "t", Payload: []byte(payload)}))
		}
		n.close()
		n.config.Policies = perLength()
		if _, err := engine.Open(t.Context(), n.config); err == nil || !strings.Contains(err.Error(), `limit "length" is per func.length: set Config.Values["length"]`) {
			t.Errorf("without the function it opens with %v", err)
		}
		n.config.Values = map[string]func(*engine.Request) string{"length": lengths}
		n.config.Handlers = handle("t", j.work(time.Minute))
		n.open()
		for _, id := range ids {
			if got := n.end(id); got.State != task.Done {
				t.Errorf("%s is %v", got.Payload, got.State)
			}
		}
		if j.most != 3 {
			t.Errorf("%d ran at once, want one of each length, and one that has none", j.most)
		}
	})
}

// A node that has neither the limit nor the function adds tasks that count all the same.
func TestATaskOfANodeWithoutTheFunctionCountsByItsValue(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		g := newGroup(t)
		g.change = func(c *engine.Config) {
			if c.Name == "a" {
				c.Values = map[string]func(*engine.Request) string{"length": lengths}
			}
		}
		var j journal
		a := g.join("a", perLength(), j.work(time.Minute), "t")
		b := g.join("b", one("t", nil), takes(0))
		var ids []task.ID
		for _, payload := range []string{"a", "b", "cc", "dd"} {
			ids = append(ids, b.submit(engine.Request{Type: "t", Payload: []byte(payload)}))
		}
		for _, id := range ids {
			a.end(id)
		}
		if j.most != 2 {
			t.Errorf("%d ran at once", j.most)
		}
	})
}

func TestAFunctionDecidesWhichNodesRunAType(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		g := newGroup(t)
		g.change = func(c *engine.Config) {
			c.MayRun = func(_, name string, _ map[string]string) bool {
				if name == "c" {
					panic("oh")
				}
				return name != "a"
			}
		}
		a := g.join("a", one("t", nil), takes(0), "t")
		id := a.submit(engine.Request{Type: "t"})
		a.reason(id, engine.CodeNoNode, "no live node matches nodes: Config.MayRun; nodes that are alive: a")
		b := g.join("b", one("t", nil), takes(0), "t")
		b.end(id)
		if ran := g.ran(id); !slices.Equal(ran, []string{"b"}) {
			t.Errorf("it ran on %v", ran)
		}
		c := engine.Config{
			Store: memory.New(), Name: "c", Handlers: handle("t", takes(0)), MayRun: b.config.MayRun,
		}
		if _, err := engine.Open(t.Context(), c); err == nil || !strings.Contains(err.Error(), "Config.MayRun, asked about type t: panic: oh") {
			t.Errorf("a node with a function that panics opens with %v", err)
		}
	})
}
