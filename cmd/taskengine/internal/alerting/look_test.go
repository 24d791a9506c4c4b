package alerting

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/taskengine/taskengine/alert"
	"github.com/taskengine/taskengine/alert/duty"
	"github.com/taskengine/taskengine/codec"
	"github.com/taskengine/taskengine/config"
	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/schedule"
	"github.com/taskengine/taskengine/schedule/scheduler"
	"github.com/taskengine/taskengine/server"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/storage/memory"
	"github.com/taskengine/taskengine/task"
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

func TestFullValuesOfLimitsAreSeen(t *testing.T) {
	l := newLook(&Config{}, nil)
	full := func(name, value string, used int, cluster bool) engine.FullLimit {
		return engine.FullLimit{Name: name, Value: value, Used: used, Max: 3, Cluster: cluster}
	}
	subjects := func(all ...engine.FullLimit) (found []string) {
		for _, f := range l.fullLimits(all, "a") {
			if f.Kind != alert.LimitFull || f.Node != "a" {
				t.Errorf("it sees %+v", f)
			}
			found = append(found, fmt.Sprintf("%s %.0f", f.Subject, f.Value))
		}
		return found
	}
	is := func(got []string, want ...string) {
		t.Helper()
		if !slices.Equal(got, want) {
			t.Errorf("it sees %q, want %q", got, want)
		}
	}
	// Permits that were ordered a moment ago say nothing yet, and a limit of the cluster without values is not the node's.
	own, waits := full("partner", "acme\n", 3, false), full("shared", "acme", 1, true)
	is(subjects(own, full("plain", "", 3, false), waits, full("whole", "", 3, true)), "partner/acme\\n 3", "plain 3")
	is(subjects(own, waits), "partner/acme\\n 3", "shared/acme 1")
	is(subjects(own), "partner/acme\\n 3")
	is(subjects(waits))

	// Of very many values the same ones are seen as long as they are full.
	many := func(from int) (all []engine.FullLimit) {
		for i := range 150 {
			all = append(all, full("partner", fmt.Sprintf("%03d", from+i), 3, false))
		}
		return all
	}
	first := subjects(many(100)...)
	if len(first) != mostValues || first[0] != "partner/100 3" {
		t.Errorf("it sees %d values, the first is %q", len(first), first[0])
	}
	is(subjects(many(50)...), first...)
}

// A limit below one with values has its slots for each value: the sum of all says nothing.
func TestALimitBelowOneWithValuesIsNotTakenAsAWhole(t *testing.T) {
	c := config.Default()
	c.Limits = map[string]policy.Limit{"partner": {Name: "partner", Per: "key"}, "class": {Name: "class", Of: "partner"}, "plain": {Name: "plain", Of: "top"}, "top": {Name: "top"}}
	l := newLook(&Config{Config: c}, nil)
	for name, want := range map[string]bool{"partner": true, "class": true, "plain": false, "top": false, "": false} {
		if got := l.hasValues(name); got != want {
			t.Errorf("limit %q has values: %v", name, got)
		}
	}
}

// lacking returns an engine with two stored tasks that are encrypted with a key that it lacks.
func lacking(t *testing.T) *engine.Engine {
	t.Helper()
	store := memory.New()
	t.Cleanup(func() { store.Close() })
	open := func(key string, handled ...string) *engine.Engine {
		c, err := codec.New(codec.Config{Key: key, Keys: map[string][]byte{key: bytes.Repeat([]byte(key), 32)}})
		if err != nil {
			t.Fatal(err)
		}
		conf := engine.Config{Store: store, Name: "a", Codec: c, Policies: policy.Set{Types: map[string]policy.Type{"mail": typeOf()}}, Handlers: make(map[string]task.Handler)}
		for _, typ := range handled {
			conf.Handlers[typ] = task.HandlerFunc(func(context.Context, *task.Task) ([]byte, error) { return nil, nil })
		}
		e, err := engine.Open(t.Context(), conf)
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	e := open("k")
	for range 2 {
		if _, err := e.Submit(t.Context(), engine.Request{Type: "mail", Payload: []byte("secret")}); err != nil {
			t.Fatal(err)
		}
	}
	if err := e.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	e = open("n", "mail")
	t.Cleanup(func() { _ = e.Close(context.Background()) })
	return e
}

func TestAKeyThatTasksWaitForIsSeen(t *testing.T) {
	c := &Config{Config: config.Default(), Node: "a", Engine: lacking(t), Handlers: func() []server.HandlerStatus { return nil }}
	l := newLook(c, []alert.Rule{{When: alert.KeyMissing}})
	m := alert.New(alert.Config{Rules: []alert.Rule{{Name: "keys", When: alert.KeyMissing, Match: []string{"k"}}, {Name: "others", When: alert.KeyMissing, Match: []string{"n"}}}})
	for begin := time.Now(); ; time.Sleep(5 * time.Millisecond) {
		seen := l.node(t.Context(), duty.Overview{}, nil)
		f := facts(seen)["key_missing k"]
		if f.Value == 2 {
			if f.Node != "a" || !strings.Contains(f.Detail, "of type mail") || !slices.Contains(seen.Whole, alert.KeyMissing) {
				t.Errorf("it sees %+v", f)
			}
			m.Look(seen)
			break
		}
		if time.Since(begin) > time.Minute {
			t.Fatalf("it sees %v", seen.Facts)
		}
	}
	all := m.Alerts()
	if len(all) != 1 || all[0].Rule != "keys" || all[0].Status != alert.Firing || all[0].Summary() != `the key "k" is missing on node a: 2 tasks wait for it` {
		t.Fatalf("the alerts are %+v", all)
	}
	m.Look(alert.Look{At: time.Now(), Whole: []alert.Kind{alert.KeyMissing}})
	if all := m.Alerts(); len(all) != 0 {
		t.Errorf("when the key is there they are %+v", all)
	}
}
