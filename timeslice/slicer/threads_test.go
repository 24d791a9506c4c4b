package slicer_test

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/task"
	"github.com/taskengine/taskengine/timeslice"
	"github.com/taskengine/taskengine/timeslice/slicer"
)

func TestThreadsAreSetWhileNodesRun(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var running, most atomic.Int64
		n := start(t, definition(t, map[string]string{"interval": "1m", "max_open": "10"}, "a", "b"), func(timeslice.Work, *task.Task) error {
			now := running.Add(1)
			defer running.Add(-1)
			for was := most.Load(); now > was && !most.CompareAndSwap(was, now); was = most.Load() {
			}
			time.Sleep(time.Second)
			return nil
		})
		time.Sleep(time.Second)
		me := slicer.By{Who: "me", Reason: "they ask for it"}
		set := func(p timeslice.Platform, values map[string]string) {
			t.Helper()
			var err error
			if p.Name == "" {
				err = n.sources.SetSource(t.Context(), n.Engine, p.Source, values, me)
			} else {
				err = n.sources.Set(t.Context(), n.Engine, p, values, me)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		check := func(want int64, cluster, node string) {
			t.Helper()
			most.Store(0)
			if err := n.sources.Reset(t.Context(), n.Engine, a, time.Time{}, time.Now().Add(-10*time.Minute), me); err != nil {
				t.Fatal(err)
			}
			time.Sleep(30 * time.Second)
			if got := most.Load(); got != want {
				t.Errorf("%d slices have run at once, not %d", got, want)
			}
			shown := make(map[string]string)
			status := n.get("a")
			for _, one := range status.State.Layers.Origins(status.State.Used) {
				shown[one.Name] = one.Value + " " + one.From
			}
			if shown["threads.cluster"] != cluster || shown["threads.node"] != node {
				t.Errorf("shown are %v", shown)
			}
		}
		check(10, "0 default", "0 default")
		source := timeslice.Platform{Source: "orders"}
		set(source, map[string]string{"threads.cluster": "3"})
		check(3, "3 live", "0 default")
		set(a, map[string]string{"threads.cluster": "5", "threads.node": "2"})
		check(2, "5 own", "2 own")
		set(a, map[string]string{"threads.node": ""})
		check(5, "5 own", "0 default")
		set(a, map[string]string{"threads.cluster": ""})
		set(a, map[string]string{"threads.cluster": ""}) // it is not set any more
		check(3, "3 live", "0 default")

		paused := engine.LimitSetting{Limit: "orders-slices", Value: "orders/a", Paused: true}
		if _, err := n.SetLimit(t.Context(), paused, nil); err != nil {
			t.Fatal(err)
		}
		set(a, map[string]string{"threads.cluster": "1"})
		if all, err := n.LimitSettings(t.Context()); err != nil || len(all) != 2 || !all[1].Paused || *all[1].Max != 1 || all[1].By != "me" {
			t.Errorf("limits %+v, %v", all, err)
		}
		if err := n.UnsetLimit(t.Context(), "orders-slices", "orders/a", nil); err != nil {
			t.Fatal(err)
		}
		set(a, map[string]string{"threads.cluster": ""})
		set(source, map[string]string{"threads.cluster": ""})
		check(10, "0 default", "0 default")

		if history := fmt.Sprint(n.get("a").State.History); !strings.Contains(history, "me set threads.cluster=5 threads.node=2: they ask for it") {
			t.Errorf("history %s", history)
		}
	})
}

// A value that cannot be changes neither the limit nor the platform.
func TestThreadsThatCannotBeAreRefused(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		n := start(t, definition(t, map[string]string{"interval": "1m"}, "a"), nil)
		time.Sleep(time.Second)
		for _, values := range []map[string]string{{"threads.node": "-1"}, {"threads.node": "x"}, {"threads.node": "1", "lag": "-1s"}} {
			if err := n.sources.Set(t.Context(), n.Engine, a, values, slicer.By{}); !errors.Is(err, timeslice.ErrInvalid) {
				t.Errorf("%v: %v", values, err)
			}
			if err := n.sources.SetSource(t.Context(), n.Engine, "orders", values, slicer.By{}); !errors.Is(err, timeslice.ErrInvalid) {
				t.Errorf("%v: %v", values, err)
			}
		}
		if all, err := n.LimitSettings(t.Context()); err != nil || len(all) > 0 {
			t.Errorf("limits %+v, %v", all, err)
		}
	})
}

// A platform makes no more slices after very many failed ones, and its status says so.
func TestAPlatformWithVeryManyFailedSlicesHasAProblem(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var isDown atomic.Bool
		isDown.Store(true)
		values := map[string]string{"interval": "1s", "breaker": "0", "retries": "0", "max_open": "500", "start": time.Now().Add(-time.Hour).Format(time.RFC3339)}
		n := start(t, definition(t, values, "a"), func(timeslice.Work, *task.Task) error {
			if isDown.Load() {
				return errors.New("the platform is down")
			}
			return nil
		})
		time.Sleep(10 * time.Minute)
		s := n.get("a")
		if _, failed := s.State.Running(); failed < timeslice.MaxFailed || failed > timeslice.MaxFailed+timeslice.MostOpen || !strings.Contains(s.Problem, "slices have failed, and no more are made") {
			t.Errorf("%d slices have failed, and the problem is %q", failed, s.Problem)
		}
		isDown.Store(false)
		if err := n.sources.Retry(t.Context(), n.Engine, a, timeslice.Range{}, slicer.By{Who: "me"}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Minute)
		if s = n.get("a"); s.Problem != "" || time.Since(s.State.Low()) > 5*time.Second {
			t.Errorf("the low-water mark is %v, and the problem is %q", s.State.Low(), s.Problem)
		}
	})
}
