package engine_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

func TestATaskIsDoneWithTheResultOfItsHandler(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		n := start(t, one("upper", nil), handle("upper", func(_ context.Context, t *task.Task) ([]byte, error) {
			return []byte(strings.ToUpper(string(t.Payload))), nil
		}))
		id := n.submit(engine.Request{Type: "upper", Payload: []byte("abc"), Headers: map[string]string{"k": "v"}})
		got := n.end(id)
		if got.State != task.Done || string(got.Result) != "ABC" || got.Attempt != 1 || got.Headers["k"] != "v" || got.Version != 3 {
			t.Errorf("got %+v", got)
		}
		if s := n.Stats(); s.Fused != 1 || s.Running != 0 {
			t.Errorf("with a free slot it should have been grabbed with its submit: %+v", s)
		}
	})
}

func TestADayOfRetriesFollowsThePolicy(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var at []time.Time
		n := start(t, one("flaky", func(p *policy.Type) {
			p.Retry.Max, p.Retry.Backoff.Initial, p.Retry.Backoff.Max = 6, time.Hour, 8*time.Hour
		}), handle("flaky", func(context.Context, *task.Task) ([]byte, error) {
			at = append(at, time.Now())
			return nil, errNo
		}))
		got := n.end(n.submit(engine.Request{Type: "flaky"}))
		var gaps []time.Duration
		for i := 1; i < len(at); i++ {
			gaps = append(gaps, at[i].Sub(at[i-1]).Truncate(time.Millisecond))
		}
		want := []time.Duration{time.Hour, 2 * time.Hour, 4 * time.Hour, 8 * time.Hour, 8 * time.Hour}
		if !slices.Equal(gaps, want) {
			t.Errorf("waited %v between attempts, want %v", gaps, want)
		}
		if got.State != task.Error || got.Attempt != 6 || len(got.History) != 6 || got.History[2].Error != "no" {
			t.Errorf("got %v after attempt %d, history %+v", got.State, got.Attempt, got.History)
		}
		if !strings.Contains(got.LastError, "attempt 6 of 6") {
			t.Errorf("last error %q does not say that the attempts were used up", got.LastError)
		}
	})
}

func TestWhatAHandlerAnswersDecidesWhatIsNext(t *testing.T) {
	for name, c := range map[string]struct {
		answer  func(attempt uint32) error
		state   task.State
		took    time.Duration
		attempt uint32
		calls   int
	}{
		"permanent": {func(uint32) error { return task.Permanent(errNo) }, task.Error, 0, 1, 1},
		"own delay": {func(a uint32) error {
			if a == 1 {
				return task.RetryIn(time.Hour, errNo)
			}
			return nil
		}, task.Done, time.Hour, 2, 2},
		"class with a delay": {func(a uint32) error {
			if a < 3 {
				return task.WithClass("partner_down", errNo)
			}
			return nil
		}, task.Done, 2 * time.Minute, 3, 3},
		"class that is never retried": {func(uint32) error { return task.WithClass("invalid", errNo) }, task.Error, 0, 1, 1},
		"panic": {func(a uint32) error {
			if a == 1 {
				panic("oh")
			}
			return nil
		}, task.Done, time.Second, 2, 2},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				calls := 0
				minute := time.Minute
				n := start(t, one("x", func(p *policy.Type) {
					p.Retry.On = map[string]policy.Rule{"partner_down": {Delay: &minute}, "invalid": {Never: true}}
				}), handle("x", func(_ context.Context, t *task.Task) ([]byte, error) {
					calls++
					return nil, c.answer(t.Attempt)
				}))
				began := time.Now()
				got := n.end(n.submit(engine.Request{Type: "x"}))
				took := time.Since(began).Truncate(10 * time.Millisecond)
				if got.State != c.state || took != c.took || got.Attempt != c.attempt || calls != c.calls {
					t.Errorf("%v after %v, attempt %d, %d calls (%s); want %v after %v, attempt %d, %d calls",
						got.State, took, got.Attempt, calls, got.LastError, c.state, c.took, c.attempt, c.calls)
				}
			})
		})
	}
}

func TestASnoozeBurnsNoAttempt(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		calls := 0
		n := start(t, one("x", func(p *policy.Type) { p.Retry.Max = 1 }), handle("x", func(context.Context, *task.Task) ([]byte, error) {
			if calls++; calls < 50 {
				return nil, task.Snooze(time.Minute)
			}
			return nil, nil
		}))
		if got := n.end(n.submit(engine.Request{Type: "x"})); got.State != task.Done || got.Attempt != 1 {
			t.Errorf("%v at attempt %d after %d calls", got.State, got.Attempt, calls)
		}
	})
}

func TestATaskThatRunsAgainStartsAnew(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var attempts []uint32
		n := start(t, one("cron", nil), handle("cron", func(_ context.Context, t *task.Task) ([]byte, error) {
			attempts = append(attempts, t.Attempt)
			switch len(attempts) {
			case 1, 4:
				return nil, errNo
			case 6:
				return nil, nil
			}
			return nil, task.Again(time.Now().Add(time.Hour))
		}))
		if got := n.end(n.submit(engine.Request{Type: "cron"})); got.State != task.Done {
			t.Errorf("it is %v", got.State)
		}
		if want := []uint32{1, 2, 1, 1, 2, 1}; !slices.Equal(attempts, want) {
			t.Errorf("attempts were numbered %v, want %v", attempts, want)
		}
	})
}

func TestADelayedTaskStartsWhenItIsDue(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var j journal
		n := start(t, one("x", nil), handle("x", j.work(0)))
		began := time.Now()
		for _, d := range []time.Duration{3 * time.Hour, time.Millisecond, 48 * time.Hour, time.Hour} {
			n.submit(engine.Request{Type: "x", Payload: []byte(d.String()), At: began.Add(d)})
		}
		time.Sleep(50 * time.Hour)
		synctest.Wait()
		for _, e := range j.began {
			want, _ := time.ParseDuration(e.payload)
			if late := e.at.Sub(began) - want; late < -time.Microsecond || late > time.Millisecond {
				t.Errorf("task for %v started %v late", want, late)
			}
		}
		if len(j.began) != 4 {
			t.Errorf("%d of 4 started", len(j.began))
		}
	})
}

func TestHigherPrioritiesStartFirst(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var j journal
		set := one("x", nil)
		set.Slots = 1
		n := start(t, set, handle("x", j.work(time.Second)))
		blocker := n.submit(engine.Request{Type: "x", Payload: []byte("first")})
		for _, p := range []uint8{7, 1, 4, 9, 0, 2} {
			n.submit(engine.Request{Type: "x", Priority: &p, Payload: fmt.Append(nil, p)})
		}
		n.end(blocker)
		if err := n.WaitType(t.Context(), "x"); err != nil {
			t.Fatal(err)
		}
		if got, want := j.payloads(), []string{"first", "0", "1", "2", "4", "7", "9"}; !slices.Equal(got, want) {
			t.Errorf("started in the order %v, want %v", got, want)
		}
	})
}

func TestTasksOfOneTypeStartInTheOrderOfTheirSubmits(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var j journal
		set := one("x", func(p *policy.Type) { p.Concurrency = 1 })
		n := start(t, set, handle("x", j.work(time.Millisecond)))
		var want []string
		for i := range 200 {
			want = append(want, fmt.Sprint(i))
			n.submit(engine.Request{Type: "x", Payload: fmt.Append(nil, i)})
		}
		if err := n.WaitType(t.Context(), "x"); err != nil {
			t.Fatal(err)
		}
		if got := j.payloads(); !slices.Equal(got, want) {
			t.Errorf("started in the order %v", got)
		}
	})
}

func TestLimitsOfATreeHoldAtEveryLevel(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var all, acme journal // acme counts the tasks of that partner alone
		set := one("payout", func(p *policy.Type) { p.Limits = []string{"partner"} })
		set.Limits = map[string]policy.Limit{
			"total":   {Name: "total", Max: 6},
			"partner": {Name: "partner", Of: "total", Max: 3, Per: "payload.partner", Overrides: map[string]int{"ACME": 2}},
		}
		n := start(t, set, handle("payout", func(ctx context.Context, t *task.Task) ([]byte, error) {
			if strings.Contains(string(t.Payload), "ACME") {
				t.Payload, _ = acme.work(time.Second)(ctx, t)
			}
			return all.work(time.Second)(ctx, t)
		}))
		for i := range 90 {
			partner := []string{"ACME", "Beta", "Gamma"}[i%3]
			n.submit(engine.Request{Type: "payout", Payload: fmt.Appendf(nil, `{"partner":%q,"n":%d}`, partner, i)})
		}
		if err := n.WaitType(t.Context(), "payout"); err != nil {
			t.Fatal(err)
		}
		if all.most > 6 || len(all.began) != 90 {
			t.Errorf("%d ran at once under a limit of 6; %d of 90 ran", all.most, len(all.began))
		}
		if acme.most > 2 || len(acme.began) != 30 {
			t.Errorf("%d of ACME ran at once under a limit of 2; %d of 30 ran", acme.most, len(acme.began))
		}
	})
}

func TestAFullPartnerDoesNotDelayAnother(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var j journal
		set := one("payout", func(p *policy.Type) { p.Limits = []string{"partner"} })
		set.Limits = map[string]policy.Limit{"partner": {Name: "partner", Max: 1, Per: "payload.partner"}}
		n := start(t, set, handle("payout", j.work(time.Minute)))
		var reqs []engine.Request
		for range 10_000 {
			reqs = append(reqs, engine.Request{Type: "payout", Payload: []byte(`{"partner":"slow"}`)})
		}
		if _, err := n.Submit(t.Context(), reqs...); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		id := n.submit(engine.Request{Type: "payout", Payload: []byte(`{"partner":"fast"}`)})
		n.end(id)
		if took := time.Since(began); took > time.Minute+time.Second {
			t.Errorf("it took %v beside 10 000 tasks of another partner", took)
		}
		_, why, err := n.Why(t.Context(), task.ID{})
		if !errors.Is(err, task.ErrNotFound) {
			t.Errorf("why of nothing: %v %v", why, err)
		}
	})
}

func TestARolledBackSubmitLeavesNothing(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var j journal
		n := start(t, one("x", nil), handle("x", j.work(0)))
		var ids []task.ID
		err := n.store.Update(t.Context(), func(tx storage.Tx) error {
			rs, err := n.SubmitTx(t.Context(), tx, engine.Request{Type: "x"}, engine.Request{Type: "x", At: time.Now().Add(time.Hour)})
			for _, r := range rs {
				ids = append(ids, r.ID)
			}
			return errors.Join(err, errNo)
		})
		if !errors.Is(err, errNo) {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Hour)
		for _, id := range ids {
			if _, err := n.Get(t.Context(), id); !errors.Is(err, task.ErrNotFound) {
				t.Errorf("task of a rolled back transaction: %v", err)
			}
		}
		if len(j.began) > 0 || n.Stats().Running > 0 {
			t.Errorf("%d ran, %d slots taken", len(j.began), n.Stats().Running)
		}

		err = n.store.Update(t.Context(), func(tx storage.Tx) error {
			rs, err := n.SubmitTx(t.Context(), tx, engine.Request{Type: "x"})
			ids = []task.ID{rs[0].ID}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		if got := n.end(ids[0]); got.State != task.Done {
			t.Errorf("task of a committed transaction is %v", got.State)
		}
	})
}

func TestTheSameKeyIsAcceptedOnce(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var j journal
		n := start(t, one("x", nil), handle("x", j.work(time.Second)))
		first := n.submit(engine.Request{Type: "x", Key: "order-1"})
		for range 5 {
			rs, err := n.Submit(t.Context(), engine.Request{Type: "x", Key: "order-1"}, engine.Request{Type: "x", Key: "order-1"})
			if err != nil || rs[0] != (engine.Receipt{ID: first}) || rs[1] != rs[0] {
				t.Fatalf("got %+v, %v; want the first task's id", rs, err)
			}
			time.Sleep(time.Second)
		}
		id := task.ID{1}
		n.submit(engine.Request{Type: "x", ID: id})
		rs, err := n.Submit(t.Context(), engine.Request{Type: "x", ID: id})
		if err != nil || rs[0].Created {
			t.Errorf("an id was accepted twice: %+v %v", rs, err)
		}
		n.end(id)
		if len(j.began) != 2 || n.Stats().Running != 0 {
			t.Errorf("%d runs, %d slots taken", len(j.began), n.Stats().Running)
		}
	})
}

func TestAResultThatIsTooLargeIsAnErrorThatSaysSo(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		runs := 0
		n := start(t, one("x", func(p *policy.Type) { p.MaxResult = 2 << 20 }), handle("x", func(_ context.Context, tk *task.Task) ([]byte, error) {
			runs++
			if tk.Key == "again" {
				return make([]byte, 2<<20+1), task.Again(time.Now().Add(time.Hour))
			}
			return make([]byte, len(tk.Payload)), nil
		}))
		if got := n.end(n.submit(engine.Request{Type: "x", Payload: make([]byte, 1<<20)})); got.State != task.Done || len(got.Result) != 1<<20 {
			t.Errorf("the task is %v with %d bytes: %s", got.State, len(got.Result), got.LastError)
		}
		got := n.end(n.submit(engine.Request{Type: "x", Key: "again"}))
		if got.State != task.Error || !strings.Contains(got.LastError, "the handler succeeded") || !strings.Contains(got.LastError, "max_result") {
			t.Errorf("the task is %v: %s", got.State, got.LastError)
		}
		if runs != 2 {
			t.Errorf("the handler was called %d times, want 2", runs)
		}
	})
}

func TestAResultIsAsLargeAsItsTypeSays(t *testing.T) {
	for most, want := range map[int]task.State{0: task.Error, 1 << 20: task.Error, 1<<20 + 1: task.Done, policy.LargestResult: task.Done, 5: task.Error} {
		inBubble(t, func(t *testing.T) {
			n := start(t, one("x", func(p *policy.Type) { p.MaxResult = most }), handle("x", func(context.Context, *task.Task) ([]byte, error) {
				return make([]byte, 1<<20+1), nil
			}))
			if got := n.end(n.submit(engine.Request{Type: "x"})); got.State != want {
				t.Errorf("with max_result %d the task is %v: %s", most, got.State, got.LastError)
			}
		})
	}
}

func TestBadRequestsAreRefusedAndAddNothing(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		set := one("x", func(p *policy.Type) { p.Limits = []string{"partner"}; p.MaxPayload = 100 })
		set.Limits = map[string]policy.Limit{"partner": {Name: "partner", Max: 1, Per: "payload.partner"}}
		n := start(t, set, nil)
		ten := uint8(10)
		ok := engine.Request{Type: "x", Payload: []byte(`{"partner":"a"}`)}
		for name, r := range map[string]engine.Request{
			"no type":          {},
			"long type":        {Type: strings.Repeat("x", 201)},
			"control type":     {Type: "a\nb"},
			"long key":         {Type: "x", Key: strings.Repeat("k", 501), Payload: ok.Payload},
			"huge payload":     {Type: "x", Payload: make([]byte, 101)},
			"bad priority":     {Type: "x", Priority: &ten, Payload: ok.Payload},
			"not JSON":         {Type: "x", Payload: []byte("partner a")},
			"partner is a map": {Type: "x", Payload: []byte(`{"partner":{}}`)},
			"too far":          {Type: "x", Payload: ok.Payload, At: time.Date(10001, 1, 1, 0, 0, 0, 0, time.UTC)},
			"huge headers":     {Type: "x", Payload: ok.Payload, Headers: map[string]string{"a": strings.Repeat("b", 1<<14)}},
		} {
			if _, err := n.Submit(t.Context(), ok, r); !errors.Is(err, engine.ErrInvalid) {
				t.Errorf("%s: %v, want ErrInvalid", name, err)
			}
		}
		if counts, err := n.Count(t.Context(), storage.Filter{}); err != nil || len(counts) > 0 {
			t.Errorf("%v %v were added", counts, err)
		}
	})
}

func TestATaskThatRunsAgainShowsTheResultOfItsLastRun(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		runs := 0
		n := start(t, one("x", nil), handle("x", func(context.Context, *task.Task) ([]byte, error) {
			if runs++; runs == 3 {
				return []byte("the end"), nil
			}
			return fmt.Appendf(nil, "run %d", runs), task.Again(time.Now().Add(time.Hour))
		}))
		id := n.submit(engine.Request{Type: "x"})
		for _, want := range []string{"run 1", "run 2"} {
			time.Sleep(time.Minute)
			if row := n.expect(id, task.Waiting); string(row.Result) != want {
				t.Errorf("while it waits its result is %q, want %q", row.Result, want)
			}
			time.Sleep(time.Hour - time.Minute)
		}
		if row := n.end(id); string(row.Result) != "the end" {
			t.Errorf("in the end its result is %q", row.Result)
		}
	})
}
