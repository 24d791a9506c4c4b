package client_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/taskengine/taskengine/client"
	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/schedule"
	"github.com/taskengine/taskengine/schedule/scheduler"
	"github.com/taskengine/taskengine/storage/memory"
	"github.com/taskengine/taskengine/task"
)

// newManaged returns a client of a node with the limits payouts and partner, and with schedules.
func newManaged(t *testing.T) *client.Client {
	t.Helper()
	e, err := engine.Open(t.Context(), engine.Config{
		Store: memory.New(), Name: "n1",
		Policies: policy.Set{
			Slots: 8, Types: map[string]policy.Type{"report": policy.DefaultType(), schedule.Type: scheduler.TypePolicy()},
			Limits: map[string]policy.Limit{
				"payouts": {Name: "payouts", Max: 4},
				"partner": {Name: "partner", Of: "payouts", Max: 1, Per: "payload.p", Rate: policy.Rate{Count: 1000, Per: time.Second, Burst: 7}},
			},
		},
		Handlers: map[string]task.Handler{
			schedule.Type: scheduler.Handler,
			"report":      task.HandlerFunc(func(_ context.Context, t *task.Task) ([]byte, error) { return t.Payload, nil }),
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		e.Close(ctx)
	})
	address, _ := tasks{engine: e}.serve(t)
	return open(t, client.Options{}, address)
}

func TestLimitsAreReadAndChanged(t *testing.T) {
	c := newManaged(t)
	rate := client.Rate{Count: 1000, Per: time.Second, Burst: 7}
	want := []*client.Limit{
		{Name: "partner", Configured: true, Of: "payouts", Per: "payload.p", Scope: client.ScopeNode, Max: 1, Rate: rate, ConfiguredMax: 1, ConfiguredRate: rate},
		{Name: "payouts", Configured: true, Scope: client.ScopeNode, Max: 4, ConfiguredMax: 4},
	}
	if got, silent, err := c.Limits(t.Context()); err != nil || len(silent) != 0 || !reflect.DeepEqual(got, want) {
		t.Errorf("the limits are %+v, %v", got, err)
	}
	change := client.LimitChange{Value: "acme-*", Max: new(uint32(0)), Rate: new(client.Rate), Paused: new(true), IfVersion: new(uint64(0)), By: "eve"}
	set, err := c.SetLimit(t.Context(), "partner", change)
	if err != nil {
		t.Fatal(err)
	}
	if s := set.Setting; s == nil || *s.Max != 0 || *s.Rate != (client.Rate{}) || !s.Paused || s.By != "unknown (says eve)" || s.Node != "n1" || s.Value != "acme-*" || s.At.IsZero() ||
		!set.Paused || set.Max != 0 || set.Rate != (client.Rate{}) || set.ConfiguredRate != rate {
		t.Errorf("the limit is %+v with the setting %+v", set, s)
	}
	if _, err := c.SetLimit(t.Context(), "partner", change); !errors.Is(err, client.ErrConflict) {
		t.Errorf("a change of another version: %v", err)
	}
	if _, err := c.SetLimit(t.Context(), "partner", client.LimitChange{}); !errors.Is(err, client.ErrInvalid) {
		t.Errorf("a change of nothing: %v", err)
	}
	one, err := c.Limit(t.Context(), "partner", "acme-1")
	if err != nil || one.Setting != nil || len(one.Inherited) != 1 || one.Inherited[0].Version != set.Setting.Version || one.Inherited[0].Value != "acme-*" {
		t.Errorf("the matches of the pattern are %+v, %v", one, err)
	}
	if _, err := c.UnsetLimit(t.Context(), "partner", client.LimitUnset{Value: "acme-*", IfVersion: new(set.Setting.Version + 1)}); !errors.Is(err, client.ErrConflict) {
		t.Errorf("unset at another version: %v", err)
	}
	unset, err := c.UnsetLimit(t.Context(), "partner", client.LimitUnset{Value: "acme-*", IfVersion: &set.Setting.Version, By: "eve"})
	if err != nil || unset.Setting != nil || unset.Max != 1 {
		t.Errorf("unset, it is %+v, %v", unset, err)
	}
	if _, err := c.UnsetLimit(t.Context(), "payouts", client.LimitUnset{}); !errors.Is(err, client.ErrNotFound) {
		t.Errorf("nothing is set: %v", err)
	}
}

func TestSchedulesAreReadAndChanged(t *testing.T) {
	c := newManaged(t)
	begin := time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC)
	given := client.ScheduleDefinition{
		Cron: "30 2 * * *", Timezone: "Europe/Berlin", Gap: client.GapSkip, Repeat: client.RepeatBoth, Start: begin, End: begin.AddDate(1, 0, 0), Jitter: time.Minute,
		CatchUp: client.ScheduleCatchUp{Policy: client.CatchUpAll, Max: 7, Window: time.Hour}, Overlap: client.OverlapQueue,
		Task: client.ScheduleTask{
			Type: "report", Payload: `{"day":"{{date}}"}`, Priority: new(uint8(0)), Headers: map[string]string{"h": "v"}, Expires: time.Hour,
		},
	}
	for _, want := range []client.ScheduleOutcome{client.ScheduleCreated, client.ScheduleUnchanged} {
		if got, err := c.ApplySchedule(t.Context(), "nightly", given); err != nil || got != want {
			t.Fatalf("applied: %q, %v, want %q", got, err, want)
		}
	}
	got, err := c.Schedule(t.Context(), "nightly")
	if err != nil || !reflect.DeepEqual(got.Definition, given) || got.TaskID.IsZero() || got.Paused != nil || got.Last != nil || !got.Next.After(begin) {
		t.Errorf("the schedule is %+v, %v", got, err)
	}
	every := client.ScheduleDefinition{Every: time.Hour, Anchor: begin, Task: client.ScheduleTask{Type: "report"}}
	if got, err := c.ApplySchedule(t.Context(), "nightly", every); err != nil || got != client.ScheduleUpdated {
		t.Errorf("applied: %q, %v", got, err)
	}
	times, err := c.PreviewSchedule(t.Context(), "nightly", &given, time.Date(2100, 3, 27, 12, 0, 0, 0, time.UTC), 2)
	if err != nil || len(times) != 2 || !times[0].Time.Equal(time.Date(2100, 3, 29, 0, 30, 0, 0, time.UTC)) || times[0].Local != "2100-03-29T02:30:00+02:00" {
		t.Errorf("the times are %+v, %v", times, err) // 28 March has no half past two
	}
	if times, err := c.PreviewSchedule(t.Context(), "nightly", nil, begin, 1); err != nil || len(times) != 1 || !times[0].Time.Equal(begin) {
		t.Errorf("the times of the schedule are %+v, %v", times, err)
	}
	paused, err := c.PauseSchedule(t.Context(), "nightly", "holidays")
	if err != nil || paused.Paused == nil || paused.Paused.Reason != "holidays" || paused.Paused.Since.IsZero() || !paused.Next.IsZero() {
		t.Errorf("paused, it is %+v, %v", paused, err)
	}
	if resumed, err := c.ResumeSchedule(t.Context(), "nightly"); err != nil || resumed.Paused != nil {
		t.Errorf("resumed, it is %+v, %v", resumed, err)
	}
	id, err := c.TriggerSchedule(t.Context(), "nightly")
	if err != nil {
		t.Fatal(err)
	}
	if n, err := c.BackfillSchedule(t.Context(), "nightly", begin, begin.Add(2*time.Hour), true); err != nil || n != 3 {
		t.Errorf("there are %d times, %v", n, err)
	}
	for got.Last == nil || got.Last.TaskID != id { // until the order is carried out
		if got, err = c.Schedule(t.Context(), "nightly"); err != nil {
			t.Fatal(err)
		}
	}
	if ended, err := c.Wait(t.Context(), id); err != nil || ended.Type != "report" || ended.State != client.StateDone {
		t.Errorf("its task is %+v, %v", ended, err)
	}
	for i := range 120 { // more than a page has
		if _, err := c.ApplySchedule(t.Context(), fmt.Sprint("hourly-", i), every); err != nil {
			t.Fatal(err)
		}
	}
	names := make(map[string]bool)
	for s, err := range c.Schedules(t.Context(), client.ScheduleFilter{}) {
		if err != nil || s.Definition.Every != time.Hour {
			t.Fatal(s, err)
		}
		names[s.Name] = true
	}
	if len(names) != 121 {
		t.Errorf("the list has %d schedules", len(names))
	}
	if err := c.DeleteSchedule(t.Context(), "nightly"); err != nil {
		t.Error(err)
	}
	if _, err := c.Schedule(t.Context(), "nightly"); !errors.Is(err, client.ErrNotFound) {
		t.Errorf("deleted: %v", err)
	}
}

// A text that is not UTF-8 is a mistake of the caller, and no failure of the node.
func TestATextThatIsNotUTF8IsRefused(t *testing.T) {
	c := newManaged(t)
	const bad = "\xff"
	hourly := client.ScheduleDefinition{Every: time.Hour, Task: client.ScheduleTask{Type: "report", Payload: bad}}
	for name, err := range map[string]error{
		"submit":         second(c.Submit(t.Context(), "report", nil, client.Key(bad))),
		"submit all":     second(c.SubmitAll(t.Context(), client.Request{Type: "report"}, client.Request{Type: "report", Headers: map[string]string{"h": bad}})),
		"find":           second(c.Find(t.Context(), "report", bad)),
		"count":          second(c.Count(t.Context(), client.TaskFilter{Types: []string{bad}})),
		"cancel":         second(c.Cancel(t.Context(), task.ID{1}, bad)),
		"limit":          second(c.Limit(t.Context(), "partner", bad)),
		"set limit":      second(c.SetLimit(t.Context(), "partner", client.LimitChange{Paused: new(true), By: bad})),
		"apply schedule": second(c.ApplySchedule(t.Context(), "hourly", hourly)),
		"pause schedule": second(c.PauseSchedule(t.Context(), "hourly", bad)),
	} {
		var e *client.Error
		if !errors.Is(err, client.ErrInvalid) || !errors.As(err, &e) || e.Address != "" {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestManySchedulesAreAppliedListedAndChanged(t *testing.T) {
	c := newManaged(t)
	yearly := client.ScheduleDefinition{Cron: "0 0 1 1 *", Task: client.ScheduleTask{Type: "report"}}
	var some []client.NamedSchedule
	for i := range 150 {
		some = append(some, client.NamedSchedule{Name: fmt.Sprintf("tenant-%d/%02d", i/100, i%100), Definition: yearly, IfVersion: new(uint64(0))})
	}
	some = append(some, client.NamedSchedule{Name: "wrong", Definition: client.ScheduleDefinition{Cron: "x", Task: yearly.Task}})
	done, err := c.ApplySchedules(t.Context(), some...)
	if err != nil || len(done) != 151 || done[0] != (client.AppliedSchedule{Name: "tenant-0/00", Outcome: client.ScheduleCreated, Version: 1}) {
		t.Fatalf("%+v, %v", done, err)
	}
	if last := done[150]; last.Name != "wrong" || last.Outcome != "" || last.Code != "invalid_argument" || last.Error == "" {
		t.Errorf("a wrong one: %+v", last)
	}
	changed := client.NamedSchedule{Name: "tenant-1/00", Definition: yearly, IfVersion: new(uint64(7))}
	changed.Definition.Cron = "0 0 1 2 *"
	if done, err := c.ApplySchedules(t.Context(), changed); err != nil || done[0].Code != "aborted" {
		t.Errorf("another version: %+v, %v", done, err)
	}
	count := func(f client.ScheduleFilter) (n int) {
		last := f.After
		for s, err := range c.Schedules(t.Context(), f) {
			if err != nil || s.Name <= last || s.Version != 1 {
				t.Fatalf("%+v after %q: %v", s, last, err)
			}
			last, n = s.Name, n+1
		}
		return n
	}
	of := client.ScheduleSelection{Prefix: "tenant-0/"}
	for _, step := range []struct {
		do                               func() (client.SchedulesChanged, error)
		changed, unchanged, all, isPause int
	}{
		{func() (client.SchedulesChanged, error) {
			return c.PauseSchedules(t.Context(), client.ScheduleSelection{All: true, DryRun: true}, "")
		}, 150, 0, 100, 0},
		{func() (client.SchedulesChanged, error) { return c.PauseSchedules(t.Context(), of, "late") }, 100, 0, 100, 100},
		{func() (client.SchedulesChanged, error) { return c.PauseSchedules(t.Context(), of, "late") }, 0, 100, 100, 100},
		{func() (client.SchedulesChanged, error) { return c.ResumeSchedules(t.Context(), of) }, 100, 0, 100, 0},
		{func() (client.SchedulesChanged, error) { return c.DeleteSchedules(t.Context(), of) }, 100, 0, 0, 0},
	} {
		got, err := step.do()
		if err != nil || got.Changed != step.changed || got.Unchanged != step.unchanged || got.Failed != nil {
			t.Errorf("%+v, %v, want %+v", got, err, step)
		}
		if all, paused := count(client.ScheduleFilter{Prefix: of.Prefix}), count(client.ScheduleFilter{Paused: true}); all != step.all && step.all > 0 || paused != step.isPause {
			t.Errorf("there are %d, of which %d are paused; want %+v", all, paused, step)
		}
	}
	if n := count(client.ScheduleFilter{Prefix: "tenant-", After: "tenant-1/29"}); n != 20 {
		t.Errorf("there are %d after the first", n)
	}
	if n := count(client.ScheduleFilter{Failing: true}); n != 0 {
		t.Errorf("%d fail", n)
	}
	if _, err := c.DeleteSchedules(t.Context(), client.ScheduleSelection{}); !errors.Is(err, client.ErrInvalid) {
		t.Errorf("without a prefix: %v", err)
	}
}
