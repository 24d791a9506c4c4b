package client_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/taskengine/taskengine/client"
	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/storage/memory"
	"github.com/taskengine/taskengine/task"
	"github.com/taskengine/taskengine/timeslice"
	"github.com/taskengine/taskengine/timeslice/slicer"
)

// newSliceTasks opens an engine with the source of time slices orders and its platforms a and bad. Slices take an hour, the first one began
// two hours ago, and those of bad fail.
func newSliceTasks(t *testing.T) tasks {
	t.Helper()
	interval, retries, first := timeslice.Span(time.Hour), 0, time.Now().Add(-150*time.Minute)
	all, err := slicer.New(slicer.Config{Sources: map[string]timeslice.Definition{"orders": {
		Type: "fetch", Values: timeslice.Values{Interval: &interval, Retries: &retries, Start: &first}, Platforms: map[string]timeslice.Values{"a": {}, "bad": {}},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	handlers, set := all.Handlers(), policy.Set{Types: all.Policies()}
	set.Types["fetch"] = slicer.SlicePolicy(policy.DefaultType())
	handlers["fetch"] = slicer.Handler(task.HandlerFunc(func(_ context.Context, t *task.Task) ([]byte, error) {
		if t.Headers[timeslice.Header] == "orders/bad" {
			return nil, errors.New("the platform is down")
		}
		return nil, nil
	}))
	e, err := engine.Open(t.Context(), engine.Config{Store: memory.New(), Handlers: handlers, Policies: set})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	if err := all.Apply(t.Context(), e); err != nil {
		t.Fatal(err)
	}
	return tasks{engine: e, slices: all}
}

func TestTimeSlicesAreReadAndOrdered(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute) // a call after that fails the test
	defer cancel()
	address, _ := newSliceTasks(t).serve(t)
	c := open(t, client.Options{}, address)
	await := func(name string, is func(*client.Platform) bool) *client.Platform {
		t.Helper()
		for {
			p, err := c.Platform(ctx, "orders", name)
			if err != nil && !errors.Is(err, client.ErrNotFound) {
				t.Fatal(err)
			}
			if err == nil && is(p) {
				return p
			}
			time.Sleep(10 * time.Millisecond)
		}
	}
	bad := await("bad", func(p *client.Platform) bool { return p.Failed == 2 })
	if len(bad.Slices) != 2 || bad.Slices[0].FailedAt.IsZero() || bad.Slices[0].TaskID.IsZero() || !bad.LowWater.Equal(bad.Slices[0].Start) || bad.Made != 2 {
		t.Errorf("%+v", bad)
	}
	await("a", func(p *client.Platform) bool { return p.Made == 2 && len(p.Slices) == 0 && p.Cursor.Equal(p.LowWater) })
	order := client.SliceOrder{By: "anna", Reason: "a test"}
	for _, one := range []struct {
		what string
		give func() (*client.Platform, error)
	}{
		{"set interval=30m: a test", func() (*client.Platform, error) {
			return c.SetSlices(ctx, "orders", "a", map[string]string{"interval": "30m"}, order)
		}},
		{"pause: a test", func() (*client.Platform, error) { return c.PauseSlices(ctx, "orders", "a", order) }},
		{"resume: a test", func() (*client.Platform, error) { return c.ResumeSlices(ctx, "orders", "a", order) }},
		{"remove: a test", func() (*client.Platform, error) { return c.RemovePlatform(ctx, "orders", "a", order) }},
		{"add: a test", func() (*client.Platform, error) { return c.AddPlatform(ctx, "orders", "a", nil, order) }},
		{"retry failed slices: a test", func() (*client.Platform, error) {
			return c.RetrySlices(ctx, "orders", "a", time.Time{}, time.Now(), order)
		}},
		{"reset the cursor to 2026-01-01T00:00:00Z: a test", func() (*client.Platform, error) {
			return c.ResetPlatform(ctx, "orders", "a", time.Time{}, time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), order)
		}},
	} {
		if p, err := one.give(); err != nil || p.Name != "a" {
			t.Errorf("%s: %+v, %v", one.what, p, err)
		}
		await("a", func(p *client.Platform) bool {
			return p.Orders == 0 && slices.ContainsFunc(p.History, func(h client.SliceChange) bool { return h.What == one.what && h.By == "unknown (says anna)" })
		})
	}
	if p, err := c.PauseSlices(ctx, "orders", "", order); err != nil || p != nil {
		t.Errorf("%+v, %v", p, err)
	}
	if p := await("bad", func(p *client.Platform) bool { return p.Paused != nil }); p.Paused.Reason != "a test" {
		t.Errorf("%+v", p.Paused)
	}
	all, err := c.Platforms(ctx, "orders", "")
	if err != nil || len(all) != 2 || all[0].Name != "a" || len(all[0].Settings) != 0 {
		t.Errorf("%+v, %v", all, err)
	}
	source, err := c.SliceSource(ctx, "orders")
	listed, failed := c.SliceSources(ctx)
	if err != nil || failed != nil || source.Type != "fetch" || source.PlatformCount != 2 || len(source.Values) != 3 || len(listed) != 1 || listed[0].Name != "orders" {
		t.Errorf("%+v, %v, %+v, %v", source, err, listed, failed)
	}
	if _, err := c.SliceSource(ctx, "other"); !errors.Is(err, client.ErrNotFound) {
		t.Errorf("%v", err)
	}
	if _, err := c.ResetPlatform(ctx, "orders", "a", time.Unix(5, 0), time.Unix(7, 0), order); !errors.Is(err, client.ErrConflict) {
		t.Errorf("%v", err)
	}
	if _, err := c.SetSlices(ctx, "orders", "a", map[string]string{"interval": "often"}, order); !errors.Is(err, client.ErrInvalid) {
		t.Errorf("%v", err)
	}
}

// More platforms than a request has are applied, each as its row says. A row of another version is refused alone.
func TestManyPlatformsAreApplied(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute) // a call after that fails the test
	defer cancel()
	address, _ := newSliceTasks(t).serve(t)
	c := open(t, client.Options{}, address)
	var rows []client.PlatformRow
	for i := range 1100 {
		rows = append(rows, client.PlatformRow{Name: fmt.Sprintf("tenant-%04d", i), Values: map[string]string{"interval": "2h"}, Replace: true})
	}
	order := client.SliceOrder{By: "anna", Reason: "a test"}
	for _, want := range []client.PlatformOutcome{client.PlatformCreated, client.PlatformUnchanged} {
		done, err := c.ApplyPlatforms(ctx, "orders", rows, order)
		if err != nil || len(done) != len(rows) {
			t.Fatalf("%d platforms, %v", len(done), err)
		}
		for i, one := range done {
			if one != (client.AppliedPlatform{Name: rows[i].Name, Outcome: want, Version: 1}) {
				t.Fatalf("%+v", one)
			}
		}
	}
	some := []client.PlatformRow{{Name: "tenant-0000", Removed: true}, {Name: "tenant-0001", Values: map[string]string{"lag": "1s"}, IfVersion: new(uint64(9))}}
	would, err := c.PreviewPlatforms(ctx, "orders", some)
	if err != nil || would[0].Outcome != client.PlatformRemoved || would[1].Code != "aborted" || would[1].Error == "" {
		t.Errorf("%+v, %v", would, err)
	}
	done, err := c.ApplyPlatforms(ctx, "orders", some, order)
	if err != nil || !slices.Equal(done, would) {
		t.Errorf("%+v, %v", done, err)
	}
	if _, err := c.PauseSlices(ctx, "orders", "", client.SliceOrder{Prefix: "tenant-00"}); err != nil {
		t.Error(err)
	}
	all, err := c.Platforms(ctx, "orders", "tenant-")
	if err != nil || len(all) != 1100 || all[1].Version != 1 || all[1].Own["interval"] != "2h0m0s" || all[1].Configured || all[0].Version != 2 {
		t.Errorf("%d platforms, %v", len(all), err)
	}
	if _, err := c.ApplyPlatforms(ctx, "orders", []client.PlatformRow{{Name: "a/b"}}, order); !errors.Is(err, client.ErrInvalid) {
		t.Errorf("%v", err)
	}
}
