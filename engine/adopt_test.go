package engine_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/task"
)

// adopt has a node adopt its policies, with one type changed.
func (n *node) adopt(set policy.Set, name string, change func(*policy.Type)) policy.Set {
	n.t.Helper()
	p := set.Types[name]
	change(&p)
	to := policy.Set{Slots: set.Slots, Types: map[string]policy.Type{name: p}, Limits: set.Limits}
	if err := n.Adopt(context.Background(), to, nil); err != nil {
		n.t.Fatal(err)
	}
	return to
}

func TestAnEngineAdoptsTheValuesOfTypesForAttemptsThatBeginLater(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		set := one("work", func(p *policy.Type) { p.Retry.Max, p.Timeout.Run, p.Concurrency = 2, time.Hour, 1 })
		n := start(t, set, handle("work", takes(10*time.Hour)))
		first := n.submit(engine.Request{Type: "work"})
		second := n.submit(engine.Request{Type: "work"})
		synctest.Wait()
		n.expect(first, task.Processing)
		n.expect(second, task.Submitted)
		set = n.adopt(set, "work", func(p *policy.Type) { p.Retry.Max, p.Timeout.Run, p.Concurrency, p.Priority = 1, time.Minute, 2, 1 })
		synctest.Wait()
		n.expect(second, task.Processing)
		if third := n.get(n.submit(engine.Request{Type: "work"})); third.Priority != 1 || third.State != task.Submitted {
			t.Errorf("a later task: %+v", third)
		}
		time.Sleep(2 * time.Minute)
		n.expect(second, task.Error) // by the values that it began with: one minute, and no other attempt
		n.expect(first, task.Processing)
		time.Sleep(time.Hour)
		if got := n.expect(first, task.Error); got.Attempt != 2 { // likewise: an hour, and one more attempt, which has the new values
			t.Errorf("the first task had %d attempts", got.Attempt)
		}
		n.adopt(set, "work", func(p *policy.Type) { p.Retention.Done = 0 })
	})
}

func TestAnEngineAdoptsLimitsAndKeepsTheChangesOfPeople(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		set := partners()
		n := start(t, set, handle("work", takes(time.Hour)))
		for _, p := range []string{"acme", "beta", "gamma"} {
			n.work(p, 20)
		}
		five := 5
		setLimit(t, n.Engine, engine.LimitSetting{Limit: "partner", Value: "gamma", Max: &five})
		n.uses("acme", 6)
		n.uses("beta", 4)
		n.uses("gamma", 5)
		l := set.Limits["partner"]
		l.Max, l.Overrides = 9, map[string]int{"acme": 7, "gamma": 1}
		all := set.Limits["all"]
		all.Max = 20
		to := policy.Set{Slots: set.Slots, Types: set.Types, Limits: map[string]policy.Limit{"partner": l, "all": all}}
		if err := n.Adopt(t.Context(), to, nil); err != nil {
			t.Fatal(err)
		}
		n.uses("acme", 7)
		n.uses("beta", 8) // the limit above has 20
		n.uses("gamma", 5)
		if got, err := n.Limit(t.Context(), "partner", "acme"); err != nil || got.Base.Max != 7 || got.Max != 7 {
			t.Errorf("%+v, %v", got, err)
		}
	})
}

func TestAnEngineAdoptsHandlers(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		say := func(text string, takes time.Duration) task.Handler {
			return task.HandlerFunc(func(context.Context, *task.Task) ([]byte, error) {
				time.Sleep(takes)
				return []byte(text), nil
			})
		}
		set := one("work", nil)
		n := start(t, set, map[string]task.Handler{"work": say("first", time.Minute)})
		began := n.submit(engine.Request{Type: "work"})
		synctest.Wait()
		if err := n.Adopt(t.Context(), set, map[string]task.Handler{"work": say("second", 0), "unknown": say("third", 0)}); err != nil {
			t.Fatal(err)
		}
		if got := n.end(n.submit(engine.Request{Type: "work"})); string(got.Result) != "second" {
			t.Errorf("the result is %s", got.Result)
		}
		if got := n.end(began); string(got.Result) != "first" {
			t.Errorf("the result of the attempt that had begun is %s", got.Result)
		}
	})
}

func TestAnEngineRefusesWhatItCannotAdoptAndChangesNothing(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*policy.Set, *policy.Type, *policy.Limit)
		want   string
	}{
		"a weight":          {func(_ *policy.Set, p *policy.Type, _ *policy.Limit) { p.Weight = 2 }, `type "work"`},
		"a first bound":     {func(_ *policy.Set, p *policy.Type, _ *policy.Limit) { p.Concurrency = 2 }, `type "work"`},
		"a limit of a type": {func(_ *policy.Set, p *policy.Type, _ *policy.Limit) { p.Limits = nil }, `type "work"`},
		"the slots":         {func(s *policy.Set, _ *policy.Type, _ *policy.Limit) { s.Slots = 7 }, "slots"},
		"the values":        {func(_ *policy.Set, _ *policy.Type, l *policy.Limit) { l.Per = "payload.other" }, `limit "partner"`},
		"an invalid value":  {func(_ *policy.Set, p *policy.Type, _ *policy.Limit) { p.Timeout.Run = -1 }, "types.work.timeout"},
		"a new type":        {func(s *policy.Set, p *policy.Type, _ *policy.Limit) { s.Types["new"] = *p }, `type "new"`},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				n := start(t, partners(), handle("work", takes(time.Hour)))
				to := partners()
				p, l := to.Types["work"], to.Limits["partner"]
				p.Priority = 1
				c.change(&to, &p, &l)
				to.Types["work"], to.Limits["partner"] = p, l
				if err := n.Adopt(t.Context(), to, nil); !errors.Is(err, engine.ErrInvalid) || !strings.Contains(err.Error(), c.want) {
					t.Errorf("error %v, want one about %s", err, c.want)
				}
				if got := n.get(n.submit(engine.Request{Type: "work", Payload: []byte(`{"partner":"a"}`)})); got.Priority != task.DefaultPriority {
					t.Error("a part is in force")
				}
			})
		})
	}
}
