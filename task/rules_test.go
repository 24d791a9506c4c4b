package task_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/taskengine/taskengine/task"
)

// holds returns a row that has the key of the requests below, in a state.
func holds(s task.State, edit func(*task.Task)) *task.Task {
	t := &task.Task{ID: task.ID{1}, Type: "x", Key: "k", ReadyAt: start.Add(time.Hour), Payload: []byte("old")}
	t.Create(task.Waiting, start, t.ReadyAt)
	if s != task.Waiting {
		t.State, t.NextEventAt = s, time.Time{}
	}
	if edit != nil {
		edit(t)
	}
	return t
}

func TestWhatBecomesOfARequestDependsOnTheRulesAndTheTaskOfItsKey(t *testing.T) {
	const late = 10 * time.Minute
	now := start.Add(30 * time.Minute)
	begun := func(t *task.Task) { t.StartedAt = start }
	long := func(t *task.Task) { t.CreatedAt = now.Add(-time.Hour) }
	rules := func(mode task.OnConflict) *task.Rules {
		return &task.Rules{OnConflict: mode, Window: time.Hour, MaxLateness: late}
	}
	every := []task.OnConflict{task.KeepExisting, task.RejectNew, task.ReplaceExisting, task.DebounceExisting, task.ThrottleNew}
	for name, c := range map[string]struct {
		holder *task.Task
		at     time.Time // of the request
		want   [5]task.Resolution
	}{
		"none":                    {nil, time.Time{}, [5]task.Resolution{task.Adds, task.Adds, task.Adds, task.Adds, task.Adds}},
		"none, and just in time":  {nil, now.Add(-late), [5]task.Resolution{task.Adds, task.Adds, task.Adds, task.Adds, task.Adds}},
		"none, and late":          {nil, now.Add(-late - 1), [5]task.Resolution{task.IsLate, task.IsLate, task.IsLate, task.IsLate, task.IsLate}},
		"the task of the request": {holds(task.Waiting, func(t *task.Task) { t.ID = task.ID{2} }), time.Time{}, [5]task.Resolution{}},
		"waiting":                 {holds(task.Waiting, nil), time.Time{}, [5]task.Resolution{task.Exists, task.Rejects, task.Replaces, task.Replaces, task.Exists}},
		"submitted":               {holds(task.Submitted, nil), time.Time{}, [5]task.Resolution{task.Exists, task.Rejects, task.Replaces, task.Replaces, task.Exists}},
		"waiting, and late": {
			holds(task.Waiting, nil), now.Add(-late - 1), [5]task.Resolution{task.Exists, task.Rejects, task.Replaces, task.IsLate, task.Exists},
		},
		"a retry":            {holds(task.Waiting, begun), time.Time{}, [5]task.Resolution{task.Exists, task.Rejects, task.Exists, task.Exists, task.Exists}},
		"processing":         {holds(task.Processing, begun), now.Add(-late - 1), [5]task.Resolution{task.Exists, task.Rejects, task.Exists, task.Exists, task.Exists}},
		"an error":           {holds(task.Error, long), time.Time{}, [5]task.Resolution{task.Exists, task.Rejects, task.Exists, task.Exists, task.Exists}},
		"done a moment ago":  {holds(task.Done, nil), time.Time{}, [5]task.Resolution{task.AlreadyDone, task.Rejects, task.AlreadyDone, task.AlreadyDone, task.AlreadyDone}},
		"done a window ago":  {holds(task.Done, long), time.Time{}, [5]task.Resolution{task.AlreadyDone, task.Rejects, task.AlreadyDone, task.AlreadyDone, task.FreesKey}},
		"failed in between":  {holds(task.Failed, nil), time.Time{}, [5]task.Resolution{task.Exists, task.Rejects, task.Exists, task.Exists, task.Exists}},
		"cancelled long ago": {holds(task.Cancelled, long), time.Time{}, [5]task.Resolution{task.Exists, task.Rejects, task.Exists, task.Exists, task.FreesKey}},
		"done long ago, and late": {
			holds(task.Done, long), now.Add(-late - 1), [5]task.Resolution{task.AlreadyDone, task.Rejects, task.AlreadyDone, task.AlreadyDone, task.IsLate},
		},
		"a tombstone": {
			holds(task.Done, func(t *task.Task) { t.Tombstone = true }),
			time.Time{},
			[5]task.Resolution{task.AlreadyDone, task.Rejects, task.AlreadyDone, task.AlreadyDone, task.AlreadyDone},
		},
	} {
		if name == "the task of the request" {
			for i := range c.want {
				c.want[i] = task.Exists
			}
		}
		for i, mode := range every {
			row := &task.Task{ID: task.ID{2}, Type: "x", Key: "k", ReadyAt: c.at, Payload: []byte("new")}
			got, change := task.Resolve(now, c.holder, row, rules(mode))
			if got != c.want[i] {
				t.Errorf("%s, %v: it %v, want %v", name, mode, got, c.want[i])
			}
			if makes := got == task.Replaces || got == task.FreesKey; makes != (change != nil) {
				t.Errorf("%s, %v: it %v by %+v", name, mode, got, change)
			}
			if change != nil && !change.Apply(c.holder.Clone()) {
				t.Errorf("%s, %v: %+v does not apply to the task", name, mode, change)
			}
			if row.Version != 0 || !row.ReadyAt.Equal(c.at) {
				t.Errorf("%s, %v: the request has become %+v", name, mode, row)
			}
		}
	}
}

func TestARequestThatReplacesATaskGivesItItsContentAndTheDebouncedItsTime(t *testing.T) {
	now := start.Add(time.Minute)
	for name, c := range map[string]struct {
		mode   task.OnConflict
		holder *task.Task
		at     time.Time // of the request
		want   func(*task.Task)
	}{
		"a waiting one keeps its time": {task.ReplaceExisting, holds(task.Waiting, nil), time.Time{}, func(*task.Task) {}},
		"a ready one is overdue later": {
			task.ReplaceExisting, holds(task.Submitted, nil), time.Time{}, func(t *task.Task) { t.NextEventAt = now.Add(time.Minute) },
		},
		"a debounced one waits longer": {task.DebounceExisting, holds(task.Waiting, nil), now.Add(2 * time.Hour), func(t *task.Task) {
			t.ReadyAt, t.NextEventAt = now.Add(2*time.Hour), now.Add(2*time.Hour)
		}},
		"a debounced one is ready": {task.DebounceExisting, holds(task.Waiting, nil), time.Time{}, func(t *task.Task) {
			t.State, t.ReadyAt, t.NextEventAt = task.Submitted, now, now.Add(time.Minute)
		}},
		"one that expires before its time keeps that": {task.ReplaceExisting, holds(task.Waiting, func(t *task.Task) {
			t.ExpiresAt, t.NextEventAt = start.Add(time.Minute), start.Add(time.Minute)
		}), time.Time{}, func(t *task.Task) { t.NextEventAt = t.ReadyAt }},
		"one without a time keeps none until it expires": {task.ReplaceExisting, holds(task.Waiting, func(t *task.Task) {
			t.ReadyAt, t.ExpiresAt, t.NextEventAt = start, start.Add(time.Hour), start.Add(time.Hour)
		}), time.Time{}, func(t *task.Task) { t.NextEventAt = t.ExpiresAt }},
		"one with a checkpoint loses it": {
			task.ReplaceExisting, holds(task.Waiting, func(t *task.Task) { t.Notes = task.NewNotes(task.Progress{}, []byte("half")) }), time.Time{}, func(t *task.Task) { t.Notes = nil },
		},
	} {
		rules := &task.Rules{OnConflict: c.mode, QueueTimeout: time.Minute, TotalTimeout: 24 * time.Hour}
		row := &task.Task{
			ID: task.ID{2}, Type: "x", Key: "k", ReadyAt: c.at, ExpiresAt: now.Add(100 * time.Hour), Priority: 3, Group: "g",
			Payload: []byte("new"), Headers: map[string]string{"a": "b"},
		}
		created := row.Clone()
		rules.Create(now, created)
		want := c.holder.Clone()
		want.Version, want.UpdatedAt, want.ExpiresAt = 2, now, now.Add(24*time.Hour)
		want.Priority, want.Group, want.Payload, want.Headers = 3, "g", []byte("new"), map[string]string{"a": "b"}
		c.want(want)
		for _, request := range []*task.Task{row, created} {
			got := c.holder.Clone()
			what, change := task.Resolve(now, c.holder, request, rules)
			if what != task.Replaces || !change.Apply(got) {
				t.Errorf("%s: it %v by %+v", name, what, change)
				continue
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s: -want +got:\n%s", name, diff)
			}
		}
	}
}

func TestANewTaskIsReadyOrWaitsAndEndsInTime(t *testing.T) {
	rules := &task.Rules{QueueTimeout: time.Minute, TotalTimeout: time.Hour}
	for name, c := range map[string]struct {
		at, expires time.Time
		want        task.Task
	}{
		"now":            {time.Time{}, time.Time{}, task.Task{State: task.Submitted, ReadyAt: start, NextEventAt: start.Add(time.Minute), ExpiresAt: start.Add(time.Hour)}},
		"in a while":     {start.Add(time.Second), start.Add(2 * time.Hour), task.Task{State: task.Waiting, ReadyAt: start.Add(time.Second), NextEventAt: start.Add(time.Second), ExpiresAt: start.Add(time.Hour)}},
		"expires before": {start.Add(-time.Hour), start.Add(time.Second), task.Task{State: task.Submitted, ReadyAt: start.Add(-time.Hour), NextEventAt: start.Add(time.Second), ExpiresAt: start.Add(time.Second)}},
	} {
		got := task.Task{ReadyAt: c.at, ExpiresAt: c.expires}
		rules.Create(start, &got)
		c.want.Version, c.want.CreatedAt, c.want.UpdatedAt = 1, start, start
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: -want +got:\n%s", name, diff)
		}
	}
}
