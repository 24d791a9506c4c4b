package engine_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/task"
)

// partners is a set with tasks that count for a limit of their partner, below a limit of all.
func partners() policy.Set {
	set := one("work", func(p *policy.Type) { p.Limits = []string{"partner"} })
	set.Limits = map[string]policy.Limit{
		"all":     {Name: "all", Max: 50},
		"partner": {Name: "partner", Of: "all", Max: 4, Per: "payload.partner", Overrides: map[string]int{"acme": 6}},
	}
	return set
}

// work adds tasks of a partner.
func (n *node) work(partner string, count int) {
	n.t.Helper()
	for range count {
		n.submit(engine.Request{Type: "work", Payload: fmt.Appendf(nil, `{"partner":%q}`, partner)})
	}
}

// uses checks how many tasks of a partner run, or of all if it is "".
func (n *node) uses(partner string, want int) {
	n.t.Helper()
	synctest.Wait()
	name := "partner"
	if partner == "" {
		name = "all"
	}
	l, err := n.Limit(context.Background(), name, partner)
	if err != nil || l.Used != want {
		n.t.Errorf("%d tasks of %q run, %v, want %d", l.Used, partner, err, want)
	}
}

func TestALimitThatIsChangedHoldsAtOnce(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		n := start(t, partners(), handle("work", takes(time.Hour)))
		set := func(value string, most int) {
			t.Helper()
			setLimit(t, n.Engine, engine.LimitSetting{Limit: "partner", Value: value, Max: &most})
		}
		for _, p := range []string{"acme", "beta-1", "beta-2", "gamma"} {
			n.work(p, 20)
		}
		uses := func(acme, beta1, beta2, gamma int) {
			t.Helper()
			n.uses("acme", acme)
			n.uses("beta-1", beta1)
			n.uses("beta-2", beta2)
			n.uses("gamma", gamma)
		}
		uses(6, 4, 4, 4)
		set("", 5) // not for acme, which has a maximum of its own in the configuration
		uses(6, 5, 5, 5)
		set("beta-*", 7)
		set("beta-2", 8)
		set("acme", 9)
		uses(9, 7, 8, 5)
		set("beta-*", 0)
		uses(9, 20, 8, 5)
		n.uses("", 42)
		n.uses("beta-*", 28)
		if err := n.UnsetLimit(t.Context(), "partner", "acme", nil); err != nil {
			t.Fatal(err)
		}
		set("", 1)
		uses(9, 20, 8, 5) // running tasks go on
		for value, want := range map[string]int{"acme": 6, "beta-1": 0, "beta-2": 8, "beta-*": 0, "gamma": 1, "": 1} {
			if l, err := n.Limit(t.Context(), "partner", value); err != nil || l.Max != want {
				t.Errorf("the limit for %q is %d, %v, want %d", value, l.Max, err, want)
			}
		}
		time.Sleep(time.Hour)
		uses(6, 0, 8, 1)
	})
}

func TestAPausedLimitStartsNothing(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		n := start(t, partners(), handle("work", takes(time.Hour)))
		pause := func(limit, value string) {
			t.Helper()
			setLimit(t, n.Engine, engine.LimitSetting{Limit: limit, Value: value, Paused: true, By: "ann"})
		}
		unset := func(limit, value string) {
			t.Helper()
			if err := n.UnsetLimit(t.Context(), limit, value, nil); err != nil {
				t.Error(err)
			}
		}
		n.work("gamma", 1)
		pause("partner", "acme")
		id := n.submit(engine.Request{Type: "work", Payload: []byte(`{"partner":"acme"}`)})
		n.work("gamma", 1)
		n.uses("acme", 0)
		n.uses("gamma", 2)
		_, reasons, err := n.Why(t.Context(), id)
		if err != nil || len(reasons) != 1 || reasons[0].Code != engine.CodePaused || reasons[0].Limit != "partner" || reasons[0].Value != "acme" ||
			!strings.HasPrefix(reasons[0].Text, "limit partner for acme is paused, by ann since 2000-01-01T") {
			t.Errorf("it is because of %+v, %v", reasons, err)
		}
		pause("all", "")
		n.work("gamma", 1)
		n.uses("gamma", 2)
		unset("partner", "acme")
		n.uses("acme", 0)
		unset("all", "")
		n.uses("acme", 1)
		n.uses("gamma", 3)
		pause("partner", "g*")
		n.work("gamma", 1)
		n.uses("gamma", 3)
		if l, err := n.Limit(t.Context(), "partner", "gamma"); err != nil || !l.Paused || l.Setting() != nil || len(l.Settings) != 1 {
			t.Errorf("got %+v, %v", l, err)
		}
	})
}

func TestARateIsChangedWhileTasksWaitForIt(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		set := partners()
		set.Limits["partner"] = policy.Limit{Name: "partner", Per: "payload.partner", Rate: policy.Rate{Count: 1, Per: time.Hour}}
		var j journal
		n := start(t, set, handle("work", j.work(0)))
		rate := func(r policy.Rate) {
			t.Helper()
			setLimit(t, n.Engine, engine.LimitSetting{Limit: "partner", Rate: &r})
			synctest.Wait()
		}
		began := func(want int) {
			t.Helper()
			synctest.Wait()
			if got := len(j.payloads()); got != want {
				t.Errorf("%d began, want %d", got, want)
			}
		}
		n.work("acme", 100)
		began(1)
		if w, err := n.WhyLimit(t.Context(), "partner", "acme"); err != nil || time.Until(w.NextStart) != time.Hour {
			t.Errorf("the next start is at %v, %v, want in an hour", w.NextStart, err)
		}
		rate(policy.Rate{Count: 1, Per: time.Second})
		began(1)
		time.Sleep(time.Second)
		began(2)
		time.Sleep(9 * time.Second)
		began(11)
		rate(policy.Rate{Count: 1, Per: time.Hour})
		time.Sleep(time.Minute)
		began(12) // one that the rate of before had allowed
		rate(policy.Rate{})
		began(100)
	})
}

func TestALimitSaysWhatItCountsAndWhatWaits(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		n := start(t, partners(), handle("work", takes(time.Hour)))
		n.work("acme", 10)
		n.work("beta", 3)
		synctest.Wait()
		for _, c := range []struct {
			name, value         string
			used, tasks, queued int
		}{
			{"partner", "acme", 6, 6, 4}, {"partner", "beta", 3, 3, 0}, {"partner", "", 9, 9, 4}, {"all", "", 9, 9, 4}, {"partner", "a*", 6, 6, 4}, {"partner", "x", 0, 0, 0},
		} {
			w, err := n.WhyLimit(t.Context(), c.name, c.value)
			if err != nil || w.Used != c.used || len(w.Tasks) != c.tasks || !w.NextStart.IsZero() {
				t.Errorf("%+v: got %+v, %v", c, w, err)
			}
			var want []engine.LimitQueue
			if c.queued > 0 {
				want = []engine.LimitQueue{{Type: "work", Tasks: c.queued}}
			}
			if diff := cmp.Diff(want, w.Queued); diff != "" {
				t.Error(diff)
			}
			for _, one := range w.Tasks {
				if one.Type != "work" || one.Weight != 1 || !one.StartedAt.Equal(time.Now()) || n.get(one.ID).State != task.Processing {
					t.Errorf("got %+v", one)
				}
			}
		}
	})
}

func TestALimitIsChangedOnAllNodes(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		g := newGroup(t)
		g.settings = true
		a, b := g.join("a", partners(), takes(time.Hour), "work"), g.join("b", partners(), takes(time.Hour), "work")
		time.Sleep(3 * time.Second) // the nodes know each other
		var heard []int
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go func() {
			_ = b.WatchLimits(ctx, func(all []engine.LimitSetting) { heard = append(heard, len(all)) })
		}()
		synctest.Wait()
		most := 2
		s := setLimit(t, a.Engine, engine.LimitSetting{Limit: "partner", Value: "acme", Max: &most})
		synctest.Wait()
		for _, m := range []*member{a, b} {
			l, err := m.Limit(t.Context(), "partner", "acme")
			if err != nil || l.Max != 2 || l.Setting() == nil || l.Setting().Node != "a" {
				t.Errorf("node %s has %+v, %v", m.name, l, err)
			}
		}
		if err := b.UnsetLimit(t.Context(), "partner", "acme", &s.Version); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		if l, err := a.Limit(t.Context(), "partner", "acme"); err != nil || l.Max != 6 {
			t.Errorf("node a has %+v, %v", l, err)
		}
		if diff := cmp.Diff([]int{0, 1, 0}, heard); diff != "" {
			t.Error(diff)
		}
	})
}

func TestWithoutACoordinatorOtherNodesLearnOfAChangeWithinHalfAMinute(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		g := newGroup(t)
		a, b := g.join("a", partners(), takes(0), "work"), g.join("b", partners(), takes(0), "work")
		setLimit(t, a.Engine, engine.LimitSetting{Limit: "all", Paused: true})
		time.Sleep(30 * time.Second)
		synctest.Wait()
		if l, err := b.Limit(t.Context(), "all", ""); err != nil || !l.Paused {
			t.Errorf("got %+v, %v", l, err)
		}
	})
}
