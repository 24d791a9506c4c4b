package alerting

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/taskengine/taskengine/alert"
	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/storage/memory"
	"github.com/taskengine/taskengine/task"
	"github.com/taskengine/taskengine/timeslice"
	"github.com/taskengine/taskengine/timeslice/slicer"
)

// Of three platforms one is fetched, one fails, and one is paused.
func TestPlatformsThatAreLateOrHaveFailedSlicesAreSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		interval, retries := timeslice.Span(time.Minute), 0
		sources, err := slicer.New(slicer.Config{Sources: map[string]timeslice.Definition{"orders": {
			Type: "fetch", Values: timeslice.Values{Interval: &interval, Retries: &retries}, Platforms: map[string]timeslice.Values{"well": {}, "failing": {}, "paused": {}},
		}}})
		if err != nil {
			t.Fatal(err)
		}
		handlers, set := sources.Handlers(), policy.Set{Types: sources.Policies()}
		set.Types["fetch"] = slicer.SlicePolicy(policy.DefaultType())
		handlers["fetch"] = slicer.Handler(task.HandlerFunc(func(_ context.Context, t *task.Task) ([]byte, error) {
			if t.Headers[timeslice.Header] == "orders/failing" {
				return nil, errors.New("the platform is down")
			}
			return nil, nil
		}))
		e, err := engine.Open(t.Context(), engine.Config{Store: memory.New(), Handlers: handlers, Policies: set})
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := e.Close(context.Background()); err != nil {
				t.Error(err)
			}
		}()
		if err := sources.Apply(t.Context(), e); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		if err := sources.Pause(t.Context(), e, timeslice.Platform{Source: "orders", Name: "paused"}, slicer.By{Reason: "holidays"}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		l := &look{config: &Config{Slices: sources, Engine: e}, name: "n1"}
		seen := alert.Look{At: e.Now()}
		l.lookAtPlatforms(t.Context(), &seen)
		got := facts(seen)
		if f := got["platform_failing orders/failing"]; f.Value != 5 || !strings.HasPrefix(f.Detail, "it makes no slices since ") {
			t.Errorf("%+v", f)
		}
		if f := got["platform_late orders/failing"]; f.Value < 3500 || f.Value > 3700 || f.Node != "n1" {
			t.Errorf("%+v", f)
		}
		if f := got["platform_late orders/paused"]; f.Value < 3500 || f.Detail != "it is paused: holidays" {
			t.Errorf("%+v", f)
		}
		if f, ok := got["platform_late orders/well"]; ok && f.Value > 60 { // between two runs of the cursor
			t.Errorf("%+v", f)
		}
		if _, ok := got["platform_failing orders/well"]; ok || !slices.Contains(seen.Whole, alert.PlatformLate) || !slices.Contains(seen.Whole, alert.PlatformFailing) {
			t.Errorf("%v, whole %v", got, seen.Whole)
		}
	})
}
