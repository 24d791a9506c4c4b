package task_test

import (
	"maps"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/taskengine/taskengine/task"
)

// undoable are changes by a bulk job, by the state of the row.
func undoable(t *task.Task, to task.State) task.Change {
	c := task.Change{Ref: t.Ref(), To: to, At: start.Add(time.Minute), NextEventAt: start.Add(3 * time.Hour), Mark: &task.Mark{Was: "w", By: "anna", Job: "job"}}
	switch to {
	case task.Waiting:
		c.ReadyAt = c.NextEventAt
	case task.Failed, task.Cancelled:
		c.Error = "by mistake"
	}
	if t.State == task.Error || t.State == task.Failed || t.State == task.Cancelled {
		c.Count = task.Reset
	}
	return c
}

func restoring(t *task.Task, b task.Before) task.Change {
	return task.Change{
		Ref: t.Ref(), To: b.State, At: start.Add(2 * time.Minute), NextEventAt: task.MomentOf(b.Next), ReadyAt: task.MomentOf(b.Ready), Mark: &task.Mark{Was: "w", Job: "undo"},
		Restore: &task.Restore{Attempt: b.Attempt, Crashes: b.Crashes, ExpiresAt: task.MomentOf(b.Expires), Error: b.Error},
	}
}

func TestAChangeByAJobIsUndone(t *testing.T) {
	t.Parallel()
	for _, s := range []task.State{task.Waiting, task.Submitted, task.Error, task.Failed, task.Cancelled} {
		for _, to := range []task.State{task.Waiting, task.Submitted, task.Failed, task.Cancelled} {
			row := &task.Task{
				ID: task.ID{1}, Version: 3, State: s, LastError: "no", Attempt: 2, Crashes: 1, ReadyAt: start, ExpiresAt: start.Add(9 * time.Hour),
				NextEventAt: start.Add(time.Hour), StartedAt: start, CreatedAt: start,
			}
			was := *row
			if !undoable(row, to).Apply(row) {
				continue
			}
			if _, err := row.Undoable("other"); err != task.ErrNotByJob {
				t.Errorf("%v to %v: %v", s, to, err)
			}
			b, err := row.Undoable("job")
			if err != nil || !restoring(row, b).Apply(row) {
				if s == task.Submitted && to == task.Submitted {
					continue
				}
				t.Fatalf("%v to %v: %v, %+v", s, to, err, row)
			}
			if row.State != s || row.LastError != was.LastError || row.Attempt != 2 || row.Crashes != 1 || !row.ReadyAt.Equal(was.ReadyAt) || !row.ExpiresAt.Equal(was.ExpiresAt) || !row.NextEventAt.Equal(was.NextEventAt) {
				t.Errorf("%v to %v: got %+v", s, to, row)
			}
			if n := len(row.History); n != 2 || row.History[0].Before != "" || row.History[1].Before == "" || row.History[1].Job != "undo" {
				t.Errorf("%v to %v: the history is %+v", s, to, row.History)
			}
			if _, err := row.Undoable("job"); err != task.ErrChangedSince {
				t.Errorf("%v to %v: %v", s, to, err)
			}
		}
	}
}

func TestValuesThatAJobHasReplacedAreKept(t *testing.T) {
	t.Parallel()
	row := &task.Task{ID: task.ID{1}, Version: 3, State: task.Error, Priority: 5, Headers: map[string]string{"a": "1"}, Payload: []byte("new")}
	c := task.Change{
		Ref: row.Ref(), To: task.Error, At: start, Put: &task.Put{Priority: new(uint8(1)), Headers: new(map[string]string)},
		Mark: &task.Mark{Was: "w", Job: "job", Payload: new([]byte("old"))},
	}
	large := c
	large.Mark = &task.Mark{Was: "w", Job: "job", Payload: new(make([]byte, task.MaxBefore))}
	cut := *row
	if !c.Apply(row) || !large.Apply(&cut) {
		t.Fatal("it does not apply")
	}
	b, err := row.Undoable("job")
	if err != nil || *b.Priority != 5 || string(*b.Payload) != "old" || !maps.Equal(*b.Headers, map[string]string{"a": "1"}) {
		t.Errorf("got %+v, %v", b, err)
	}
	if _, err := cut.Undoable("job"); err == nil || !strings.Contains(err.Error(), "too large") || len(cut.History[0].Before) > 500 {
		t.Errorf("got %v, %+v", err, cut.History)
	}
}

func TestWhatATaskHasLostIsNotUndone(t *testing.T) {
	t.Parallel()
	for want, row := range map[string]*task.Task{
		"running": {State: task.Processing},
		"parent":  {State: task.Waiting, Parent: new(task.Parent)},
		"childr":  {State: task.Waiting, Children: new(task.Children)},
		"signal":  {State: task.Waiting, Signals: &task.Signals{Awaits: []string{"paid"}}},
	} {
		if !undoable(row, task.Cancelled).Apply(row) {
			t.Fatal(want)
		}
		if _, err := row.Undoable("job"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}

// A task that becomes ready when its time comes can be undone; one that a person makes ready before cannot.
func TestATaskThatBecameReadyIsUndone(t *testing.T) {
	t.Parallel()
	for at, want := range map[time.Time]error{start.Add(3 * time.Hour): nil, start.Add(2 * time.Hour): task.ErrChangedSince} {
		row := &task.Task{ID: task.ID{1}, Version: 3, State: task.Error}
		if !undoable(row, task.Waiting).Apply(row) || !(task.Change{Ref: row.Ref(), To: task.Submitted, At: at}).Apply(row) {
			t.Fatal("it does not apply")
		}
		if _, err := row.Undoable("job"); err != want {
			t.Errorf("ready at %v: %v", at, err)
		}
	}
}

// withMark returns a history with the entry about a change by a person, which has what the task had before if a job makes the change.
func withMark(t *rapid.T, history []task.Attempt, before *task.Task, c task.Change, now *task.Task) []task.Attempt {
	for i := range history {
		history[i].Before = ""
	}
	kept, at := now.History[len(now.History)-1].Before, c.At.UTC().Truncate(time.Microsecond)
	if (kept != "") != (c.Mark.Job != "") {
		t.Fatalf("of job %q it keeps %q", c.Mark.Job, kept)
	}
	return append(history, task.Attempt{Number: before.Attempt, StartedAt: at, EndedAt: at, Outcome: task.Edited, Error: c.Mark.Was, By: c.Mark.By, Job: c.Mark.Job, Before: kept})
}
