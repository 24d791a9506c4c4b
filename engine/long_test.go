//go:build !race

package engine_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/storage/memory"
	"github.com/taskengine/taskengine/task"
)

func TestFinishedTasksAreKeptAsLongAsTheirTypeSays(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		work := func(_ context.Context, t *task.Task) ([]byte, error) {
			if string(t.Payload) == "fail" {
				return nil, task.Permanent(errNo)
			}
			return nil, nil
		}
		set := one("kept", func(p *policy.Type) {
			p.Retention = policy.Retention{Done: time.Hour, Failed: policy.Forever, Cancelled: 2 * time.Hour}
		})
		gone := policy.DefaultType()
		gone.Retention.Done = 0
		set.Types["gone"] = gone
		n := start(t, set, map[string]task.Handler{"kept": task.HandlerFunc(work), "gone": task.HandlerFunc(work)})
		done := n.submit(engine.Request{Type: "kept", Key: "k"})
		failed := n.submit(engine.Request{Type: "kept", Payload: []byte("fail")})
		cancelled := n.submit(engine.Request{Type: "kept", At: time.Now().Add(time.Hour)})
		removed := n.submit(engine.Request{Type: "gone"})
		n.end(done)
		n.end(failed)
		_, _ = n.Cancel(t.Context(), task.Ref{ID: cancelled}, "")
		_ = n.WaitTasks(t.Context(), removed)
		has := func(when string, id task.ID, want bool) {
			t.Helper()
			if _, err := n.Get(t.Context(), id); errors.Is(err, task.ErrNotFound) == want {
				t.Errorf("%s: kept is %v, want %v", when, !want, want)
			}
		}
		has("at once", removed, false)
		has("at once", done, true)
		time.Sleep(59 * time.Minute)
		has("before its time", done, true)
		time.Sleep(2 * time.Hour)
		has("after an hour", done, false)
		has("after three hours", cancelled, false)
		time.Sleep(31 * 24 * time.Hour) // more than the default
		n.expect(failed, task.Error)
		if again := n.submit(engine.Request{Type: "kept", Key: "k"}); again == done {
			t.Error("the key of a removed task is still taken")
		}
	})
}

func TestATaskWithoutATimeWaitsUntilItGetsOne(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		n := start(t, one("x", nil), handle("x", func(context.Context, *task.Task) ([]byte, error) { return nil, nil }))
		id := n.submit(engine.Request{Type: "x", At: time.Now().Add(time.Hour)})
		paused, err := n.Edit(t.Context(), task.Ref{ID: id}, engine.Edit{At: new(time.Time)})
		if err != nil || !paused.NextEventAt.IsZero() {
			t.Fatalf("got %+v: %v", paused, err)
		}
		for range 2 {
			time.Sleep(7 * 24 * time.Hour)
			n.close()
			n.open()
		}
		if got := n.expect(id, task.Waiting); got.Version != paused.Version {
			t.Errorf("it is at version %d, from %d", got.Version, paused.Version)
		}
		if _, reasons, err := n.Why(t.Context(), id); err != nil || len(reasons) != 1 || reasons[0].Code != engine.CodeScheduled || !strings.Contains(reasons[0].Text, "no time") {
			t.Errorf("why: %+v, %v", reasons, err)
		}
		if _, err := n.Edit(t.Context(), paused.Ref(), engine.Edit{At: new(time.Now().Add(time.Minute))}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Minute)
		n.expect(id, task.Done)
	})
}

func TestAHugeBacklogStaysInTheStoreAndLosesNothing(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var j journal
		n := &node{t: t, config: engine.Config{
			Policies: one("x", func(p *policy.Type) { p.Concurrency = 10; p.Priority = 3 }), Handlers: handle("x", j.work(time.Millisecond)),
			LookAhead: 500, QueueLookAhead: 100,
		}}
		n.store = memory.New()
		n.config.Store = n.store
		n.open()
		t.Cleanup(n.close)
		for batch := range 20 {
			var reqs []engine.Request
			for i := range 1000 {
				reqs = append(reqs, engine.Request{Type: "x", Payload: fmt.Append(nil, batch*1000+i)})
			}
			if _, err := n.Submit(t.Context(), reqs...); err != nil {
				t.Fatal(err)
			}
			if w := n.Stats().Waiting; w > 500 {
				t.Fatalf("%d triggers in memory, 500 allowed", w)
			}
		}
		if err := n.WaitType(t.Context(), "x"); err != nil {
			t.Fatal(err)
		}
		seen := map[string]int{}
		for _, p := range j.payloads() {
			seen[p]++
		}
		if len(seen) != 20_000 || len(j.began) != 20_000 {
			t.Errorf("%d different tasks ran in %d runs, want 20 000", len(seen), len(j.began))
		}
	})
}
