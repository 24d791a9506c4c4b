//go:build !race

package core

import (
	"testing"
	"time"

	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/task"
)

// A task is tried again a second after its grab has failed. Meanwhile it is not in the window of
// waiting rows: if the window is full of tasks that are due earlier, the task must not fall out of it.
func TestAWaitingTaskWithAGrabThatFailedIsTriedAgainHoweverManyAreDue(t *testing.T) {
	now := time.Unix(1_700_000_000, 0).UTC()
	c := New(Config{
		Policies: policy.Set{Slots: 1, Types: map[string]policy.Type{"x": policy.DefaultType()}},
		Handled:  map[string]bool{"x": true}, Capacity: 10, QueueCapacity: 10,
	})
	var r Ready
	c.Take(&r)
	c.Scanned(nil, true)
	c.DueLoaded(now, DueLoad{State: task.Waiting}, nil, true)
	c.DueLoaded(now, DueLoad{State: task.Submitted}, nil, true)
	delay := func(n int, d time.Duration) *task.Task {
		row := &task.Task{ID: task.ID{0: byte(n >> 16), 1: byte(n >> 8), 2: byte(n)}, Type: "x", ReadyAt: now.Add(d)}
		c.Submit(now, row)
		c.Inserted(now, row, true)
		return row
	}
	first := delay(1, time.Millisecond)
	now = now.Add(time.Millisecond)
	c.Tick(now)
	if c.Take(&r); len(r.Grabs) != 1 {
		t.Fatalf("%d grabs of the only task that is due", len(r.Grabs))
	}
	c.Grabbed(now, r.Grabs[0].Ref, nil, true)
	for n := range 2*duePage + 1 {
		delay(n+2, time.Millisecond)
	}
	now = now.Add(retryDelay)
	c.Tick(now)
	c.Take(&r)
	for _, g := range r.Grabs {
		if g.Ref == first.Ref() {
			return
		}
	}
	for _, s := range r.Saves {
		if s.Ref == first.Ref() {
			return
		}
	}
	t.Error("the task was forgotten")
}

// Hints arrive in any order. An old one must not replace a newer one that is kept until the run has
// ended.
func TestAnOldHintDoesNotReplaceANewerOne(t *testing.T) {
	r := &run{ref: task.Ref{ID: task.ID{1}, Version: 2}, phase: disowned}
	for _, v := range []uint64{6, 4, 2} {
		r.follow(task.Trigger{Ref: task.Ref{ID: task.ID{1}, Version: v}})
	}
	if r.next.Version != 6 {
		t.Errorf("version %d is kept, want 6", r.next.Version)
	}
}

// The grace period starts at the stop, however late the stop is. The handler has all of it even
// after the machine slept.
func TestALateStopStillLeavesTheGracePeriod(t *testing.T) {
	now := time.Unix(1_700_000_000, 0).UTC()
	p := policy.DefaultType()
	p.Timeout = policy.Timeout{Run: time.Minute, Grace: 10 * time.Second}
	c := New(Config{
		Policies: policy.Set{Types: map[string]policy.Type{"x": p}}, Handled: map[string]bool{"x": true}, Capacity: 10, QueueCapacity: 10,
		Chance: func() float64 { return 0 },
	})
	var r Ready
	c.Take(&r)
	c.Scanned(nil, true)
	c.DueLoaded(now, DueLoad{State: task.Waiting}, nil, true)
	c.DueLoaded(now, DueLoad{State: task.Submitted}, nil, true)
	row := &task.Task{ID: task.ID{1}, Type: "x"}
	c.Submit(now, row)
	c.Inserted(now, row, true)
	now = now.Add(time.Hour)
	for range 3 {
		c.Tick(now)
	}
	if c.Take(&r); len(r.Stops) != 1 || len(r.Saves) != 0 || !c.Wake().Equal(now.Add(10*time.Second)) {
		t.Errorf("stops %v, saves %v, wake %v; want one stop and 10 s of grace", r.Stops, r.Saves, c.Wake())
	}
}
