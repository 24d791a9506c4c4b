package engine_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

func TestAnAttemptThatTakesTooLongIsCancelledAndRetried(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var j journal
		n := start(t, one("x", func(p *policy.Type) { p.Timeout.Run = time.Minute; p.Retry.Max = 2 }), handle("x", j.work(time.Hour)))
		got := n.end(n.submit(engine.Request{Type: "x"}))
		if got.State != task.Error || len(j.began) != 2 || got.History[0].Outcome != task.TimedOut || j.most != 1 {
			t.Errorf("%v after %d runs, %d at once: %+v", got.State, len(j.began), j.most, got.History)
		}
	})
}

func TestAHandlerThatDoesNotReturnLosesItsTaskButKeepsItsSlot(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		release := make(chan struct{})
		calls := 0
		set := one("x", func(p *policy.Type) {
			p.Timeout.Run, p.Timeout.Grace = time.Minute, time.Second
			p.Retry.Backoff.Initial = time.Minute
		})
		n := start(t, set, handle("x", func(context.Context, *task.Task) ([]byte, error) {
			if calls++; calls == 1 {
				<-release // ignores its context
				return []byte("late"), nil
			}
			return []byte("second"), nil
		}))
		id := n.submit(engine.Request{Type: "x"})
		time.Sleep(90 * time.Second)
		if got := n.expect(id, task.Waiting); got.History[0].Outcome != task.TimedOut || n.Stats().Running != 1 {
			t.Errorf("history %+v, %d slots taken", got.History, n.Stats().Running)
		}
		time.Sleep(time.Hour)
		if _, why, _ := n.Why(t.Context(), id); why[0].Code != engine.CodeStuck {
			t.Errorf("why: %+v", why)
		}
		close(release)
		if got := n.end(id); string(got.Result) != "second" || n.Stats().Stale != 1 || n.Stats().Abandoned != 1 {
			t.Errorf("result %q, stats %+v", got.Result, n.Stats())
		}
	})
}

func TestATaskThatWaitsTooLongBecomesAnError(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var j journal
		set := one("x", func(p *policy.Type) { p.Timeout.Queue = time.Minute })
		set.Slots = 1
		n := start(t, set, handle("x", j.work(time.Hour)))
		n.submit(engine.Request{Type: "x"})
		waits := n.submit(engine.Request{Type: "x"})
		began := time.Now()
		got := n.end(waits)
		if took := time.Since(began); got.State != task.Error || took < time.Minute || took > time.Minute+time.Second {
			t.Errorf("%v after %v: %s", got.State, took, got.LastError)
		}
		time.Sleep(2 * time.Hour)
		if len(j.payloads()) != 1 || n.Stats().Running != 0 {
			t.Errorf("%d ran; %d slots taken", len(j.began), n.Stats().Running)
		}
	})
}

func TestATaskEndsWithItsTotalTimeout(t *testing.T) {
	for name, c := range map[string]struct {
		handler func(context.Context, *task.Task) ([]byte, error)
		at      time.Duration
	}{
		"while it runs":           {func(ctx context.Context, _ *task.Task) ([]byte, error) { <-ctx.Done(); return nil, context.Cause(ctx) }, 0},
		"while it waits to retry": {func(context.Context, *task.Task) ([]byte, error) { return nil, task.RetryIn(time.Hour, errNo) }, 0},
		"while it waits its time": {func(context.Context, *task.Task) ([]byte, error) { return nil, nil }, time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				n := start(t, one("x", func(p *policy.Type) { p.Timeout.Total = 10 * time.Minute }), handle("x", c.handler))
				r := engine.Request{Type: "x"}
				if c.at > 0 {
					r.At = time.Now().Add(c.at)
				}
				began := time.Now()
				got := n.end(n.submit(r))
				if took := time.Since(began); got.State != task.Error || took > 10*time.Minute+time.Second {
					t.Errorf("%v after %v: %s", got.State, took, got.LastError)
				}
			})
		})
	}
}

func TestClosingWaitsForWhatRunsAndStartsNothing(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var j journal
		set := one("x", nil)
		set.Slots = 1
		n := start(t, set, handle("x", j.work(10*time.Second)))
		runs, waits := n.submit(engine.Request{Type: "x"}), n.submit(engine.Request{Type: "x"})
		n.close()
		n.expect(runs, task.Done)
		n.expect(waits, task.Submitted)
		if _, err := n.Submit(t.Context(), engine.Request{Type: "x"}); !errors.Is(err, engine.ErrClosed) {
			t.Errorf("submit to a closed engine: %v", err)
		}
		n.open()
		if got := n.end(waits); got.State != task.Done || len(j.began) != 2 {
			t.Errorf("%v after %d runs", got.State, len(j.began))
		}
	})
}

func TestClosingInAHurryPutsTasksBack(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var j journal
		set := one("least", nil)
		once := policy.DefaultType()
		once.Delivery = policy.AtMostOnce
		set.Types["most"] = once
		work := task.HandlerFunc(j.work(time.Hour))
		n := start(t, set, map[string]task.Handler{"least": work, "most": work})
		least, most := n.submit(engine.Request{Type: "least"}), n.submit(engine.Request{Type: "most"})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := n.Close(ctx); err != nil {
			t.Fatal(err)
		}
		if got := n.expect(least, task.Submitted); got.Attempt != 0 || got.History[0].Outcome != task.Interrupted {
			t.Errorf("attempt %d, history %+v", got.Attempt, got.History)
		}
		if got := n.expect(most, task.Error); !strings.Contains(got.LastError, "at_most_once") {
			t.Errorf("last error %q", got.LastError)
		}
		n.open()
		if got := n.end(least); got.State != task.Done || got.Attempt != 1 {
			t.Errorf("%v at attempt %d", got.State, got.Attempt)
		}
	})
}

func TestWhatRanWhenTheNodeDiedIsDecidedByItsDelivery(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var j journal
		set := one("least", func(p *policy.Type) { p.MaxCrashes = 3 })
		once := policy.DefaultType()
		once.Delivery = policy.AtMostOnce
		set.Types["most"] = once
		work := task.HandlerFunc(j.work(0))
		n := start(t, set, map[string]task.Handler{"least": work, "most": work})
		n.close()
		row := func(id byte, typ string, crashes uint32) *task.Task {
			r := &task.Task{ID: task.ID{id}, Type: typ, Priority: 5}
			r.Create(task.Submitted, time.Now(), time.Time{})
			task.Change{Ref: r.Ref(), To: task.Processing, At: time.Now(), NextEventAt: time.Now(), Owner: task.ID{77}}.Apply(r)
			r.Crashes = crashes
			return r
		}
		if _, err := n.store.Insert(t.Context(), row(1, "least", 0), row(2, "most", 0), row(3, "least", 2), row(4, "gone", 0)); err != nil {
			t.Fatal(err)
		}
		n.open()
		if got := n.end(task.ID{1}); got.State != task.Done || got.Attempt != 2 || got.History[0].Outcome != task.Crashed {
			t.Errorf("%v at attempt %d: %+v", got.State, got.Attempt, got.History)
		}
		if got := n.expect(task.ID{2}, task.Error); !strings.Contains(got.LastError, "at_most_once") {
			t.Errorf("last error %q", got.LastError)
		}
		if got := n.expect(task.ID{3}, task.Error); !strings.Contains(got.LastError, "quarantined after 3 crashes") {
			t.Errorf("last error %q", got.LastError)
		}
		n.expect(task.ID{4}, task.Submitted)
	})
}

func TestATaskWithoutAHandlerWaitsUntilThereIsOne(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var j journal
		n := start(t, one("x", nil), nil)
		id := n.submit(engine.Request{Type: "new"})
		time.Sleep(24 * time.Hour)
		if got := n.expect(id, task.Submitted); got.Attempt != 0 {
			t.Errorf("attempt %d of a task without a handler", got.Attempt)
		}
		n.close()
		n.config.Policies, n.config.Handlers = one("new", nil), handle("new", j.work(0))
		n.open()
		n.end(id)
		n.expect(id, task.Done)
	})
}

// flaky is a store that fails on demand.
type flaky struct {
	storage.Store
	fail atomic.Pointer[error]
}

func (f *flaky) Update(ctx context.Context, fn func(storage.Tx) error) error {
	if err := f.fail.Load(); err != nil {
		return f.Store.Update(ctx, func(tx storage.Tx) error {
			if err := fn(tx); err != nil {
				return err
			}
			return *err
		})
	}
	return f.Store.Update(ctx, fn)
}

// Commit implements [storage.Store].
func (f *flaky) Commit(ctx context.Context, b *storage.Batch) storage.Commit {
	return storage.CommitLaterIn(ctx, f.Update, b)
}

func TestAnOutageOfTheStoreLosesNoResult(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var j journal
		n := start(t, one("x", nil), handle("x", j.work(time.Minute)))
		n.close()
		store := &flaky{Store: n.store}
		n.config.Store = store
		n.open()
		id := n.submit(engine.Request{Type: "x", Payload: []byte("r")})
		outage := errors.New("outage")
		store.fail.Store(&outage)
		if _, err := n.Submit(t.Context(), engine.Request{Type: "x"}); !errors.Is(err, outage) {
			t.Errorf("submit during an outage: %v", err)
		}
		time.Sleep(time.Hour)
		n.expect(id, task.Processing)
		if n.Stats().Running != 0 {
			t.Errorf("%d slots taken by tasks that have ended", n.Stats().Running)
		}
		store.fail.Store(nil)
		time.Sleep(time.Second)
		if got := n.expect(id, task.Done); string(got.Result) != "r" || len(j.began) != 1 {
			t.Errorf("result %q after %d runs", got.Result, len(j.began))
		}
	})
}

func TestABrokenStoreStopsTheEngineAndSaysSo(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var j journal
		n := start(t, one("x", nil), handle("x", j.work(time.Hour)))
		n.close()
		store := &flaky{Store: n.store}
		n.config.Store = store
		e, err := engine.Open(t.Context(), n.config)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := e.Submit(t.Context(), engine.Request{Type: "x"}); err != nil {
			t.Fatal(err)
		}
		broken := fmt.Errorf("no space left: %w", storage.ErrBroken)
		store.fail.Store(&broken)
		if _, err := e.Submit(t.Context(), engine.Request{Type: "x"}); !errors.Is(err, storage.ErrBroken) {
			t.Errorf("submit to a broken store: %v", err)
		}
		<-e.Failed()
		if _, err := e.Submit(t.Context(), engine.Request{Type: "x"}); !errors.Is(err, engine.ErrFailed) {
			t.Errorf("submit to a failed engine: %v", err)
		}
		synctest.Wait()
		if err := e.Close(t.Context()); !errors.Is(err, engine.ErrFailed) || !strings.Contains(err.Error(), "no space left") {
			t.Errorf("close of a failed engine: %v", err)
		}
	})
}

func TestAHandlerThatEndsItsGoroutineFreesItsSlot(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		set := one("x", func(p *policy.Type) { p.Retry.Max = 2 })
		set.Slots = 1
		n := start(t, set, handle("x", func(_ context.Context, t *task.Task) ([]byte, error) {
			if string(t.Payload) == "exit" {
				runtime.Goexit()
			}
			return nil, nil
		}))
		n.end(n.submit(engine.Request{Type: "x"})) // leaves an idle goroutine behind
		if got := n.end(n.submit(engine.Request{Type: "x", Payload: []byte("exit")})); got.State != task.Error || got.Attempt != 2 {
			t.Errorf("%v at attempt %d: %s", got.State, got.Attempt, got.LastError)
		}
		for range 3 {
			n.end(n.submit(engine.Request{Type: "x"}))
		}
		if n.Stats().Running != 0 {
			t.Errorf("%d slots taken", n.Stats().Running)
		}
	})
}

func TestLargeNumbersInAPayloadAreDifferentGroups(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var j journal
		set := one("x", func(p *policy.Type) { p.Limits = []string{"account"} })
		set.Limits = map[string]policy.Limit{"account": {Name: "account", Max: 1, Per: "payload.account"}}
		n := start(t, set, handle("x", j.work(time.Minute)))
		n.submit(engine.Request{Type: "x", Payload: []byte(`{"account":9007199254740993}`)})
		n.submit(engine.Request{Type: "x", Payload: []byte(`{"account":9007199254740992}`)})
		synctest.Wait()
		if n.Stats().Running != 2 {
			t.Errorf("%d run, want 2: the accounts are different", n.Stats().Running)
		}
	})
}

func TestAShortRetentionIsKeptEvenWhenNothingWasThereBefore(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		n := start(t, one("x", func(p *policy.Type) { p.Retention.Done = time.Minute }), handle("x", func(context.Context, *task.Task) ([]byte, error) { return nil, nil }))
		time.Sleep(10 * time.Second)
		id := n.submit(engine.Request{Type: "x"})
		n.end(id)
		time.Sleep(2 * time.Minute)
		if _, err := n.Get(t.Context(), id); !errors.Is(err, task.ErrNotFound) {
			t.Errorf("after twice its retention: %v", err)
		}
	})
}

func TestTypesThatNobodyKnowsAreNotRememberedOnceTheirTasksHaveEnded(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		n := start(t, one("x", nil), nil)
		before := len(n.Types())
		for i := range 100 {
			id := n.submit(engine.Request{Type: fmt.Sprintf("unknown-%d", i)})
			if _, err := n.Cancel(t.Context(), task.Ref{ID: id}, ""); err != nil {
				t.Fatal(err)
			}
		}
		if after := len(n.Types()); after != before {
			t.Errorf("%d types are known, %d before", after, before)
		}
	})
}

func TestATypeWithAHandlerAndNoPolicyIsTreatedByDefault(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var j journal
		n := start(t, policy.Set{Slots: 1}, handle("x", j.work(0)))
		if got := n.end(n.submit(engine.Request{Type: "x"})); got.State != task.Done {
			t.Errorf("it is %v", got.State)
		}
	})
}
