package alerting

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/taskengine/taskengine/alert"
	"github.com/taskengine/taskengine/alert/duty"
	"github.com/taskengine/taskengine/config"
	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/engine/policy"
	"github.com/taskengine/taskengine/engine/task"
	"github.com/taskengine/taskengine/schedule"
	"github.com/taskengine/taskengine/schedule/scheduler"
	"github.com/taskengine/taskengine/server"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/storage/memory"
)

// looks are a real engine on a store that has a task in error, a task that no handler takes, and a limit that
// is full.
type looks struct {
	*look
	handlers []server.HandlerStatus
}

func openLooks(t *testing.T) *looks {
	store := memory.New()
	t.Cleanup(func() { store.Close() })
	release := make(chan struct{})
	conf := engine.Config{
		Store: store, Name: "a",
		Policies: policy.Set{
			Types:  map[string]policy.Type{"hold": typeOf("one"), "fail": typeOf()},
			Limits: map[string]policy.Limit{"one": {Name: "one", Max: 1}, "two": {Name: "two", Max: 2}},
		},
		Handlers: map[string]task.Handler{
			"hold": task.HandlerFunc(func(ctx context.Context, _ *task.Task) ([]byte, error) {
				select {
				case <-release:
					return nil, nil
				case <-ctx.Done():
					return nil, context.Cause(ctx)
				}
			}),
			"fail": task.HandlerFunc(func(context.Context, *task.Task) ([]byte, error) { return nil, task.Permanent(errors.New("sorry")) }),
		},
	}
	open := func() *engine.Engine {
		e, err := engine.Open(t.Context(), conf)
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	e := open()
	for _, typ := range []string{"fail", "hold", "rare"} {
		if _, err := e.Submit(t.Context(), engine.Request{Type: typ, Key: typ}); err != nil {
			t.Fatal(err)
		}
	}
	everyHour := schedule.Definition{Every: time.Hour, Task: schedule.Template{Type: "hold"}}
	if _, err := scheduler.Of(e).Apply(t.Context(), "hourly", everyHour); err != nil { // nothing runs it
		t.Fatal(err)
	}
	for begin := time.Now(); ; time.Sleep(time.Millisecond) {
		ts, _, err := e.List(t.Context(), storage.Filter{States: []task.State{task.Error}}, task.ID{}, 10)
		if err != nil || time.Since(begin) > time.Minute {
			t.Fatalf("no task becomes an error: %v", err)
		}
		if len(ts) > 0 {
			break
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // it waits for nothing
	_ = e.Close(ctx)
	e = open() // it looks at once
	t.Cleanup(func() { close(release); _ = e.Close(context.Background()) })
	l := &looks{}
	c := &Config{Config: config.Default(), Node: "a", Store: store, Engine: e, Handlers: func() []server.HandlerStatus { return l.handlers }}
	c.Config.Storage.Path, c.Config.TaskLog.MaxSize = t.TempDir(), 0
	made := newLook(c, []alert.Rule{{When: alert.Errors}, {When: alert.LimitFull}, {When: alert.ScheduleOverdue}})
	l.look = &made
	return l
}

func typeOf(limits ...string) policy.Type {
	t := policy.DefaultType()
	t.Limits = limits
	return t
}

// facts returns the facts of a look by kind and subject.
func facts(l alert.Look) map[string]alert.Fact {
	found := make(map[string]alert.Fact)
	for _, f := range l.Facts {
		found[strings.TrimSpace(f.Kind.String()+" "+f.Subject)] = f
	}
	return found
}

func TestTasksAndLimitsAreSeen(t *testing.T) {
	l := openLooks(t)
	var shared map[string]alert.Fact
	var whole []alert.Kind
	for begin := time.Now(); ; time.Sleep(5 * time.Millisecond) {
		seen := l.all(t.Context(), duty.Overview{Running: []string{"a", "gone"}}, nil)
		shared, whole = facts(seen), seen.Whole
		if _, ok := shared["unhandled rare"]; ok {
			break
		}
		if time.Since(begin) > time.Minute {
			t.Fatalf("it sees %v", shared)
		}
	}
	if f := shared["errors fail"]; f.Value != 1 || f.More || f.News == 0 || !strings.Contains(f.Detail, "sorry") {
		t.Errorf("the task in error is %+v", f)
	}
	if f := shared["unhandled rare"]; f.Value != 1 {
		t.Errorf("the task that is not handled is %+v", f)
	}
	if f, ok := shared["queue_age rare"]; !ok || f.Value < 0 || f.Value > 600 {
		t.Errorf("its age is %+v", f)
	}
	if f, ok := shared["schedule_overdue hourly"]; !ok || f.Value < 0 || f.Value > 600 || !strings.HasPrefix(f.Detail, "its task is 00000000-0000-8") {
		t.Errorf("the schedule that is late is %+v (%v)", f, ok)
	}
	if f := shared["node_down"]; f.Node != "gone" {
		t.Errorf("the node that is gone is %+v", f)
	}
	for _, k := range []alert.Kind{alert.Errors, alert.Unhandled, alert.QueueAge, alert.NodeDown, alert.LimitFull, alert.ScheduleOverdue} {
		if !slices.Contains(whole, k) {
			t.Errorf("it does not know all of %v", k)
		}
	}
	for begin := time.Now(); ; time.Sleep(5 * time.Millisecond) {
		own := facts(l.node(t.Context(), duty.Overview{}, nil))
		if f, ok := own["limit_full one"]; ok {
			if _, ok := own["limit_full two"]; ok || f.Node != "a" || f.Value != 1 {
				t.Errorf("the limits are %v", own)
			}
			return
		}
		if time.Since(begin) > time.Minute {
			t.Fatalf("it sees %v", own)
		}
	}
}

func TestANodeSeesItself(t *testing.T) {
	l := openLooks(t)
	l.handlers = []server.HandlerStatus{{Name: "up", Up: true}, {Name: "down", Detail: "no such program"}}
	own := facts(l.node(t.Context(), duty.Overview{}, errors.New("no answer")))
	if f := own["store_failing"]; f.Value != 1 || f.Node != "a" || f.Detail != "no answer" {
		t.Errorf("the store is %+v", f)
	}
	if f, ok := own["handler_down down"]; !ok || f.Detail != "no such program" {
		t.Errorf("the handler is %+v", f)
	}
	if f, ok := own["disk_full "+l.config.Config.Storage.Path]; !ok || f.Value <= 0 || f.Value > 100 {
		t.Errorf("the disk is %+v", f)
	}
	for _, name := range []string{"handler_down up", "coordinator_failing"} {
		if _, ok := own[name]; ok {
			t.Errorf("it sees %s among %v", name, slices.Collect(maps.Keys(own)))
		}
	}
	if own := facts(l.node(t.Context(), duty.Overview{}, nil)); own["store_failing"].Value != 0 {
		t.Errorf("the store fails: %v", own)
	}
}

func TestCrashesAreCountedWithinTenMinutes(t *testing.T) {
	l := newLook(&Config{}, nil)
	begin := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, step := range []struct {
		minute, crashes, want int
	}{{0, 3, 0}, {1, 4, 1}, {5, 8, 5}, {10, 8, 5}, {11, 9, 5}, {12, 9, 5}, {15, 9, 1}, {30, 9, 0}} {
		if got := l.crashed(begin.Add(time.Duration(step.minute)*time.Minute), "h", step.crashes); got != step.want {
			t.Errorf("in minute %d there were %d crashes within ten minutes, want %d", step.minute, got, step.want)
		}
	}
}
