package jobs_test

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/taskengine/taskengine/bulk"
	"github.com/taskengine/taskengine/bulk/jobs"
	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/storage/memory"
	"github.com/taskengine/taskengine/task"
)

// An undone job has changed nothing, but for the tasks that others have changed since. The store fails now and then, and people give orders.
func TestAnUndoneJobHasChangedNothing(t *testing.T) {
	t.Parallel()
	for name, open := range stores() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newModel(t, open)
			m.populate()
			for i, verb := range []bulk.Verb{bulk.Set, bulk.Resume, bulk.Reschedule, bulk.Fail, bulk.Cancel} {
				m.undo(verb, i%2*4)
			}
		})
	}
}

// values are random values of a job that sets some.
func (m *model) values(j *bulk.Job) {
	switch m.rng.IntN(3) {
	case 0:
		j.Priority = new(uint8(m.rng.IntN(10)))
	case 1:
		j.Payload = new(fmt.Appendf(nil, `{"n":%d}`, m.rng.IntN(1000)))
	}
	if m.rng.IntN(2) == 0 || j.Priority == nil && j.Payload == nil {
		j.Headers = map[string]*string{"job": new(j.Name), "tenant": nil}
	}
}

// undo runs a job with a verb, has others change some of its tasks, and undoes it while one of so many calls of the store fails.
func (m *model) undo(verb bulk.Verb, oneIn int) {
	m.t.Helper()
	before := m.rows()
	s := m.run(verb, "type=* state=waiting,submitted,error,failed,cancelled", func(j *bulk.Job) {
		switch verb {
		case bulk.Reschedule:
			j.At = task.Stamp(time.Now().Add(time.Duration(100+m.rng.IntN(1000)) * time.Hour))
		case bulk.Cancel, bulk.Fail:
			j.Reason = "bulk 500"
		case bulk.Set:
			m.values(j)
		}
	})
	changed := m.rows()
	touched := make(map[task.ID]bool)
	other, err := engine.Setting(engine.Values{Headers: map[string]*string{"other": new("yes")}, By: "another"})
	if err != nil {
		m.t.Fatal(err)
	}
	for id, is := range changed {
		if m.rng.IntN(20) == 0 && is.Version != before[id].Version {
			if _, err := m.Do(m.t.Context(), task.Ref{ID: id}, other); err == nil {
				touched[id] = true
			} else if !errors.Is(err, engine.ErrNotAllowed) {
				m.t.Fatal(err)
			}
		}
	}
	changed = m.rows()
	j := bulk.Job{Name: jobs.NewName(m.Now()), By: "bert"}
	if err := m.Jobs.Undo(m.t.Context(), s.Job.Name, &j); err != nil {
		m.t.Fatal(err)
	}
	if err := j.Prepare(m.Now()); err != nil {
		m.t.Fatal(err)
	}
	p, err := m.Preview(m.t.Context(), &j)
	if err != nil || p.Tasks != s.State.Changed-int64(len(touched)) || p.Selected() != s.State.Changed {
		m.t.Fatalf("%s has changed %d tasks, of which others have changed %d, and the preview is %+v, %v", verb, s.State.Changed, len(touched), p, err)
	}
	if _, err := m.Start(m.t.Context(), j); err != nil {
		m.t.Fatal(err)
	}
	m.weather.rage(oneIn)
	var got *jobs.Status
	orders := m.rng.IntN(10)
	m.await("the end of a job", func() (ended bool) {
		if got, ended = m.ended(j.Name); !ended && (orders > 0 || got != nil && got.Phase == jobs.Paused) {
			m.disturb(j.Name)
			orders--
		}
		return ended
	})
	m.weather.rage(0)
	if got.Phase != jobs.Done || got.State.Changed != p.Tasks || got.State.Unclear != 0 || got.State.Changed+got.State.Refused+got.State.Skipped != s.State.Changed {
		m.t.Fatalf("%s of %d tasks, with %d to be undone: got %s %+v", verb, s.State.Changed, p.Tasks, got.Phase, got.State)
	}
	after := m.rows()
	for id, was := range before {
		is := after[id]
		if touched[id] {
			was = changed[id]
		}
		if problem := otherThan(was, is); problem != "" {
			m.t.Fatalf("%s: %s:\nbefore  %+v\nchanged %+v\nafter   %+v", verb, problem, was, changed[id], is)
		}
	}
}

// otherThan names a difference between a task and what it was; "" is none.
func otherThan(was, is *task.Task) string {
	switch {
	case is == nil:
		return "it is gone"
	case is.State != was.State:
		return "it has another state"
	case is.Priority != was.Priority || is.Rank() != was.Rank():
		return "it has another rank"
	case string(is.Payload) != string(was.Payload) || !maps.Equal(is.Headers, was.Headers):
		return "it has another payload, or other headers"
	case is.LastError != was.LastError || is.Attempt != was.Attempt || is.Crashes != was.Crashes:
		return "it has another error, or another number of attempts"
	case !is.ExpiresAt.Equal(was.ExpiresAt) || was.State == task.Waiting && !is.NextEventAt.Equal(was.NextEventAt):
		return "it has other times"
	}
	return ""
}

func TestTasksThatHaveGoneOnAreNotUndone(t *testing.T) {
	t.Parallel()
	n := start(t, memory.New())
	ids := n.add("pay", 20)
	large := make([]byte, task.MaxBefore+1)
	for i := range large {
		large[i] = ' '
	}
	set, err := engine.Setting(engine.Values{Payload: &large})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := n.Do(t.Context(), task.Ref{ID: ids[0]}, set); err != nil {
		t.Fatal(err)
	}
	s := n.run(bulk.Set, "type=pay", func(j *bulk.Job) { j.Payload = new([]byte("{}")) })
	n.set(func(*task.Task) error { return nil })
	for _, id := range ids[1:4] {
		if _, err := n.Resume(t.Context(), task.Ref{ID: id}); err != nil {
			t.Fatal(err)
		}
	}
	n.settled(ids...)
	n.set(func(*task.Task) error { return task.Permanent(errors.New("no")) })
	if _, err := n.Resume(t.Context(), task.Ref{ID: ids[4]}); err != nil {
		t.Fatal(err)
	}
	n.settled(ids...)
	undo := bulk.Job{Name: "undo"}
	if err := n.Jobs.Undo(t.Context(), s.Job.Name, &undo); err != nil {
		t.Fatal(err)
	}
	if err := undo.Prepare(n.Now()); err != nil {
		t.Fatal(err)
	}
	p, err := n.Preview(t.Context(), &undo)
	if err != nil || p.Tasks != 15 || p.Left["what it had before is too large to be kept"] != 1 || p.Left["it has changed since"] != 1 || p.Selected() != 20 {
		t.Fatalf("got %+v, %v", p, err)
	}
	if _, err := n.Start(t.Context(), undo); err != nil {
		t.Fatal(err)
	}
	got := n.end("undo")
	if got.State.Changed != 15 || got.State.Refused != 2 || got.State.Skipped != 3 || got.State.Unclear != 0 {
		t.Fatalf("got %+v", got.State)
	}
	for i, id := range ids {
		one, err := n.Engine.Get(t.Context(), id)
		if err != nil || (string(one.Payload) != "{}") != (i > 4) {
			t.Fatalf("%d: got %+v, %v", i, one, err)
		}
	}
}

func TestOnlyJobsThatHaveEndedAreUndone(t *testing.T) {
	t.Parallel()
	n := start(t, memory.New())
	n.add("pay", 3)
	j := n.prepare(bulk.Cancel, "type=pay", func(j *bulk.Job) { j.Rate = 0.001 })
	if _, err := n.Start(t.Context(), j); err != nil {
		t.Fatal(err)
	}
	if err := n.Jobs.Undo(t.Context(), j.Name, new(bulk.Job)); !errors.Is(err, jobs.ErrRuns) || !errors.Is(err, engine.ErrNotAllowed) {
		t.Fatal(err)
	}
	if err := n.Jobs.Undo(t.Context(), "none", new(bulk.Job)); !errors.Is(err, jobs.ErrUnknown) {
		t.Fatal(err)
	}
	if _, err := n.Stop(t.Context(), j.Name, "", ""); err != nil {
		t.Fatal(err)
	}
	n.end(j.Name)
	gone := n.run(bulk.Delete, "type=pay")
	if err := n.Jobs.Undo(t.Context(), gone.Job.Name, new(bulk.Job)); !errors.Is(err, bulk.ErrInvalid) {
		t.Fatal(err)
	}
}

func TestAPreviewSaysWhichTasksCouldNotBeUndone(t *testing.T) {
	t.Parallel()
	n := start(t, memory.New())
	for i := range 12 {
		payload := strings.Repeat("x", 10)
		if i < 3 {
			payload = strings.Repeat("x", task.MaxBefore+1)
		}
		_, err := n.Submit(t.Context(), task.Request{Type: "pay", Payload: []byte(payload), At: n.Now().Add(time.Hour), Headers: map[string]string{"a": "b"}})
		if err != nil {
			t.Fatal(err)
		}
	}
	for what, set := range map[string]func(*bulk.Job){
		"payload":  func(j *bulk.Job) { j.Payload = new([]byte("{}")) },
		"headers":  func(j *bulk.Job) { j.Headers = map[string]*string{"a": nil} },
		"priority": func(j *bulk.Job) { j.Priority = new(uint8(3)) },
	} {
		j := n.prepare(bulk.Set, "type=pay", set)
		p, err := n.Preview(t.Context(), &j)
		want := map[string]int64{"payload": 3}[what]
		if err != nil || p.Tasks != 12 || p.TooLarge != want || (len(p.Lost()) > 0) != (want > 0) {
			t.Errorf("%s: got %+v, %v", what, p, err)
		}
		if want > 0 && p.Lost()["what it has is too large to be kept"] != want {
			t.Errorf("%s: got %v", what, p.Lost())
		}
	}
}
