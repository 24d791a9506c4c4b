package server

import (
	"slices"
	"time"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/task"
)

// Observers returns an observer that calls all of the given observers in order.
func Observers(all ...engine.Observer) engine.Observer {
	var o engine.Observer
	for _, next := range all {
		o.Inserted = both(o.Inserted, next.Inserted)
		o.Started = both(o.Started, next.Started)
		o.Saved = bothSaved(o.Saved, next.Saved)
		o.Committed = bothCommitted(o.Committed, next.Committed)
	}
	return o
}

func both(a, b func(time.Time, *task.Task)) func(time.Time, *task.Task) {
	if a == nil || b == nil {
		return either(a, b)
	}
	return func(at time.Time, t *task.Task) { a(at, t); b(at, t) }
}

func either(a, b func(time.Time, *task.Task)) func(time.Time, *task.Task) {
	if a == nil {
		return b
	}
	return a
}

func bothSaved(a, b func(time.Time, task.Ref, *task.Task)) func(time.Time, task.Ref, *task.Task) {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	}
	return func(at time.Time, was task.Ref, t *task.Task) { a(at, was, t); b(at, was, t) }
}

func bothCommitted(a, b func(time.Duration, error)) func(time.Duration, error) {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	}
	return func(took time.Duration, err error) { a(took, err); b(took, err) }
}

// Ended returns an observer that calls fn for every attempt that has ended, while the engine holds its lock.
func Ended(fn func(id task.ID, attempt uint32)) engine.Observer {
	return engine.Observer{Saved: func(_ time.Time, _ task.Ref, t *task.Task) {
		if t == nil { // the result was stale: fn was called for the attempt before
			return
		}
		if a, ended := endedNow(t); ended {
			fn(t.ID, a.Number)
		}
	}}
}

// Observer returns the observer that counts the tasks of an engine.
func (m *Metrics) Observer() engine.Observer {
	return engine.Observer{Inserted: m.inserted, Started: m.started, Saved: m.saved, Committed: m.committed}
}

func (m *Metrics) committed(took time.Duration, err error) {
	m.commits.Observe(took.Seconds())
	m.stands.committed(took)
	if err != nil {
		m.commitsFailed.Inc()
	}
}

func (m *Metrics) inserted(_ time.Time, t *task.Task) {
	series := m.of(t.Type)
	series.submitted.Inc()
	series.activity.submitted.Add(1)
}

func (m *Metrics) started(at time.Time, t *task.Task) {
	series := m.of(t.Type)
	series.started.Inc()
	series.activity.started.Add(1)
	// A task with earlier attempts was not ready all the time since ReadyAt.
	if t.Attempt == 1 && len(t.History) == 0 {
		delay := max(0, at.Sub(t.ReadyAt))
		series.startDelay.Observe(delay.Seconds())
		series.activity.delays[sizeOfDelay(delay)].Add(1)
	}
}

func (m *Metrics) saved(_ time.Time, _ task.Ref, t *task.Task) {
	if t != nil { // else the result was stale, which the engine counts itself
		m.changed(t)
	}
}

// signaled counts a signal to a task of a type.
func (m *Metrics) signaled(typ string, o engine.SignalOutcome) { m.of(typ).signals[o].Inc() }

// changed counts the end of an attempt or a task by the newest change of a task.
func (m *Metrics) changed(t *task.Task) {
	series := m.of(t.Type)
	series.activity.changed(t)
	if c, ended := series.finished[t.State]; ended {
		c.Inc()
	}
	if a, ok := endedNow(t); ok {
		series.attempts[a.Outcome].Inc()
		ran := max(0, a.EndedAt.Sub(a.StartedAt))
		series.run.Observe(ran.Seconds())
		series.activity.busy.Add(uint64(ran))
	}
}

// endedNow returns the attempt that ended with the newest change of a task, if one did.
func endedNow(t *task.Task) (task.Attempt, bool) {
	if t.State == task.Done && t.Erased() == nil {
		return task.Attempt{Number: t.Attempt, StartedAt: t.StartedAt, EndedAt: t.UpdatedAt, Outcome: task.Completed}, true
	}
	for _, a := range slices.Backward(t.History) {
		switch {
		case !a.EndedAt.Equal(t.UpdatedAt):
			return task.Attempt{}, false
		case !a.Outcome.ByPeople():
			return a, true
		}
	}
	return task.Attempt{}, false
}
