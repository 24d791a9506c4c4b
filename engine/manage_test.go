package engine_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/task"
)

// verbs are the methods by which operators change a task.
var verbs = map[string]func(*node, task.Ref) (*task.Task, error){
	"cancel": func(n *node, r task.Ref) (*task.Task, error) { return n.Cancel(context.Background(), r, "unwanted") },
	"fail":   func(n *node, r task.Ref) (*task.Task, error) { return n.Fail(context.Background(), r, "known") },
	"resume": func(n *node, r task.Ref) (*task.Task, error) { return n.Resume(context.Background(), r) },
	"reschedule": func(n *node, r task.Ref) (*task.Task, error) {
		return n.Reschedule(context.Background(), r, time.Now().Add(time.Hour))
	},
	"edit": func(n *node, r task.Ref) (*task.Task, error) {
		return n.Edit(context.Background(), r, engine.Edit{At: new(time.Now().Add(time.Hour)), Payload: new([]byte("edited"))})
	},
}

func TestVerbsRefuseAStaleVersionAndAnUnknownTask(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		n := start(t, one("x", nil), nil)
		id := n.submit(engine.Request{Type: "x", At: time.Now().Add(time.Hour)})
		for name, verb := range verbs {
			if _, err := verb(n, task.Ref{ID: id, Version: 7}); !errors.Is(err, engine.ErrStale) {
				t.Errorf("%s at a stale version: %v", name, err)
			}
			if _, err := verb(n, task.Ref{ID: task.ID{9}}); !errors.Is(err, task.ErrNotFound) {
				t.Errorf("%s of nothing: %v", name, err)
			}
		}
		if got := n.expect(id, task.Waiting); got.Version != 1 {
			t.Errorf("a refused verb changed the task to version %d", got.Version)
		}
	})
}

func TestVerbsAreAllowedInTheStatesThatFitThem(t *testing.T) {
	// waiting, submitted, processing, done, error, failed, cancelled
	allowed := map[string]string{
		"cancel":     "yes yes yes no yes no no",
		"fail":       "yes yes yes no yes no no",
		"resume":     "yes no no no yes yes yes",
		"reschedule": "yes yes no no yes no no",
		"edit":       "yes yes no no yes no no",
	}
	for name, verb := range verbs {
		for i, want := range strings.Fields(allowed[name]) {
			state := task.States()[i]
			t.Run(name+" "+state.String(), func(t *testing.T) {
				inBubble(t, func(t *testing.T) {
					n := start(t, one("x", nil), handle("x", func(ctx context.Context, t *task.Task) ([]byte, error) {
						if string(t.Payload) == "error" {
							return nil, task.Permanent(errNo)
						}
						if string(t.Payload) == "processing" {
							<-ctx.Done()
						}
						return nil, nil
					}))
					id := bring(n, state)
					got, err := verb(n, task.Ref{ID: id, Version: n.get(id).Version})
					if want == "yes" && err != nil || want == "no" && !errors.Is(err, engine.ErrNotAllowed) {
						t.Errorf("allowed %v: got %v", want, err)
					}
					if err == nil && got.Version <= 1 {
						t.Errorf("it is at version %d", got.Version)
					}
				})
			})
		}
	}
}

// bring submits a task and brings it into a state.
func bring(n *node, s task.State) task.ID {
	ctx := context.Background()
	r := engine.Request{Type: "x", Payload: []byte(s.String())}
	switch s {
	case task.Waiting, task.Failed, task.Cancelled:
		r.At = time.Now().Add(time.Hour)
	case task.Submitted:
		_ = n.Pause(ctx, "x")
	}
	id := n.submit(r)
	switch s {
	case task.Done, task.Error:
		n.end(id)
	case task.Failed:
		_, _ = n.Fail(ctx, task.Ref{ID: id}, "")
	case task.Cancelled:
		_, _ = n.Cancel(ctx, task.Ref{ID: id}, "")
	}
	n.expect(id, s)
	return id
}

func TestCancellingARunningTaskStopsItsHandlerAndFreesItsSlot(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var cause error
		set := one("x", nil)
		set.Slots = 1
		n := start(t, set, handle("x", func(ctx context.Context, t *task.Task) ([]byte, error) {
			if string(t.Payload) == "quick" {
				return nil, nil
			}
			<-ctx.Done()
			cause = context.Cause(ctx)
			return []byte("too late"), nil
		}))
		id := n.submit(engine.Request{Type: "x"})
		if _, err := n.Cancel(t.Context(), task.Ref{ID: id}, "unwanted"); err != nil {
			t.Fatal(err)
		}
		n.end(n.submit(engine.Request{Type: "x", Payload: []byte("quick")}))
		got := n.expect(id, task.Cancelled)
		if got.Result != nil || got.LastError != "unwanted" || len(got.History) != 1 || got.History[0].Outcome != task.Overruled {
			t.Errorf("got result %q, last error %q, history %+v", got.Result, got.LastError, got.History)
		}
		if cause == nil || n.Stats().Stale != 1 {
			t.Errorf("the handler was stopped because of %v; %d stale results", cause, n.Stats().Stale)
		}
	})
}

func TestResumingARetryRunsItNowAndAnErrorAnew(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		calls := 0
		n := start(t, one("x", func(p *policy.Type) { p.Retry.Max = 2; p.Retry.Backoff.Initial = time.Hour }), handle("x",
			func(context.Context, *task.Task) ([]byte, error) {
				if calls++; calls < 4 {
					return nil, errNo
				}
				return nil, nil
			}))
		id := n.submit(engine.Request{Type: "x"})
		began := time.Now()
		synctest.Wait()
		n.expect(id, task.Waiting)
		if _, err := n.Resume(t.Context(), task.Ref{ID: id}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		n.expect(id, task.Error)
		if _, err := n.Resume(t.Context(), task.Ref{ID: id}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if got := n.expect(id, task.Waiting); got.Attempt != 1 {
			t.Errorf("the resumed task is at attempt %d", got.Attempt)
		}
		if got := n.end(id); got.State != task.Done || time.Since(began) > time.Hour+time.Second {
			t.Errorf("%v after %v", got.State, time.Since(began))
		}
	})
}

func TestReschedulingMovesATaskToAnotherTime(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var j journal
		n := start(t, one("x", nil), handle("x", j.work(0)))
		began := time.Now()
		id := n.submit(engine.Request{Type: "x", At: began.Add(time.Hour)})
		for _, d := range []time.Duration{5 * time.Hour, 2 * time.Hour} {
			if _, err := n.Reschedule(t.Context(), task.Ref{ID: id}, began.Add(d)); err != nil {
				t.Fatal(err)
			}
		}
		n.end(id)
		time.Sleep(24 * time.Hour)
		if len(j.began) != 1 || j.began[0].at.Sub(began).Truncate(time.Second) != 2*time.Hour {
			t.Errorf("started at %v, want once after 2h", j.began)
		}
	})
}

func TestAPausedTypeStartsNothingEvenAfterARestart(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var j journal
		n := start(t, one("x", nil), handle("x", j.work(time.Second)))
		running := n.submit(engine.Request{Type: "x", Payload: []byte("a")})
		if err := n.Pause(t.Context(), "x"); err != nil {
			t.Fatal(err)
		}
		waits := n.submit(engine.Request{Type: "x", Payload: []byte("b")})
		n.end(running)
		time.Sleep(time.Hour)
		n.expect(waits, task.Submitted)
		n.close()
		n.open()
		time.Sleep(time.Hour)
		n.expect(waits, task.Submitted)
		_, why, err := n.Why(t.Context(), waits)
		if err != nil || why[0].Code != engine.CodePaused {
			t.Errorf("why: %+v %v", why, err)
		}
		if err := n.Unpause(t.Context(), "x"); err != nil {
			t.Fatal(err)
		}
		if got := n.end(waits); got.State != task.Done || len(j.began) != 2 {
			t.Errorf("%v after %d runs", got.State, len(j.began))
		}
	})
}

func TestWhyNamesTheBlocker(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var j journal
		set := one("x", func(p *policy.Type) { p.Limits = []string{"partner"} })
		set.Types["full"] = func() policy.Type { p := policy.DefaultType(); p.Concurrency = 1; return p }()
		set.Types["slow"] = func() policy.Type { p := policy.DefaultType(); p.Limits = []string{"rate"}; return p }()
		set.Limits = map[string]policy.Limit{
			"partner": {Name: "partner", Max: 1, Per: "payload.p"},
			"rate":    {Name: "rate", Rate: policy.Rate{Count: 1, Per: time.Hour}},
		}
		work := task.HandlerFunc(j.work(time.Hour))
		n := start(t, set, map[string]task.Handler{"x": work, "full": work, "slow": task.HandlerFunc(j.work(time.Second)), "flaky": task.HandlerFunc(func(context.Context, *task.Task) ([]byte, error) {
			return nil, errNo
		})})
		holder := n.submit(engine.Request{Type: "x", Payload: []byte(`{"p":"ACME"}`)})
		first := n.submit(engine.Request{Type: "full"})
		n.submit(engine.Request{Type: "slow"})
		for name, c := range map[string]struct {
			request engine.Request
			code    string
			check   func(engine.Reason) bool
		}{
			"limit": {engine.Request{Type: "x", Payload: []byte(`{"p":"ACME"}`)}, engine.CodeLimit, func(r engine.Reason) bool {
				return r.Limit == "partner" && r.Value == "ACME" && r.Used == 1 && r.Max == 1 && slices.Equal(r.Holders, []task.ID{holder})
			}},
			"concurrency": {engine.Request{Type: "full"}, engine.CodeLimit, func(r engine.Reason) bool {
				return r.Limit == "types.full.concurrency" && slices.Equal(r.Holders, []task.ID{first})
			}},
			"rate":      {engine.Request{Type: "slow"}, engine.CodeRate, func(r engine.Reason) bool { return time.Until(r.Until) > 59*time.Minute }},
			"handler":   {engine.Request{Type: "unknown"}, engine.CodeNoHandler, func(r engine.Reason) bool { return true }},
			"scheduled": {engine.Request{Type: "x", Payload: []byte(`{}`), At: time.Now().Add(time.Minute)}, engine.CodeScheduled, func(r engine.Reason) bool { return time.Until(r.Until) > 50*time.Second }},
			"running":   {engine.Request{Type: "x", Payload: []byte(`{"p":"B"}`)}, engine.CodeRunning, func(r engine.Reason) bool { return true }},
		} {
			id := n.submit(c.request)
			synctest.Wait()
			_, why, err := n.Why(t.Context(), id)
			if err != nil || len(why) == 0 || why[0].Code != c.code || !c.check(why[0]) || why[0].Text == "" {
				t.Errorf("%s: %+v %v", name, why, err)
			}
		}
		if _, why, _ := n.Why(t.Context(), n.submit(engine.Request{Type: "full"})); len(why) != 2 || why[1].Code != engine.CodeQueue || why[1].Used != 1 {
			t.Errorf("behind another: %+v", why)
		}
	})
}
