package server

import (
	"context"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/taskengine/taskengine/task"
)

const (
	// activityEvery is the time between two notes of activity.
	activityEvery = 10 * time.Second
	// activityNotes is how many are kept: those of ten minutes, and the one from before.
	activityNotes = 61
	// activityWindow is for how long before the present activity is summed up.
	activityWindow = time.Minute
)

// Sizes of delays.
const (
	leastDelay = 100 * time.Microsecond // the upper bound of the first size
	perDouble  = 8                      // sizes from one delay to twice of it
	delaySizes = 24*perDouble + 1       // the last one is without bound
)

// sizeOfDelay returns the index of the size of a delay.
func sizeOfDelay(d time.Duration) int {
	if d <= leastDelay {
		return 0
	}
	return min(int(math.Ceil(perDouble*math.Log2(float64(d)/float64(leastDelay)))), delaySizes-1)
}

// boundOfDelay returns the upper bound of a size.
func boundOfDelay(size int) time.Duration {
	return time.Duration(float64(leastDelay) * math.Exp2(float64(size)/perDouble))
}

// events is how often something happened to tasks.
type events struct {
	submitted, started, done, failed, cancelled, errors, retried uint64
	busy                                                         uint64   // nanoseconds that the attempts that ended ran
	delays                                                       []uint64 // by size; nil is none
}

// plus adds n times other, where n is 1 or -1.
func (e *events) plus(other *events, n int) {
	m := uint64(n)
	e.submitted += m * other.submitted
	e.started += m * other.started
	e.done += m * other.done
	e.failed += m * other.failed
	e.cancelled += m * other.cancelled
	e.errors += m * other.errors
	e.retried += m * other.retried
	e.busy += m * other.busy
	if other.delays != nil && e.delays == nil {
		e.delays = make([]uint64, delaySizes)
	}
	for i, v := range other.delays {
		e.delays[i] += m * v
	}
}

// activity counts the events of one type since the node started.
type activity struct {
	submitted, started, done, failed, cancelled, errors, retried atomic.Uint64
	busy                                                         atomic.Uint64 // nanoseconds
	delays                                                       [delaySizes]atomic.Uint64
}

// read returns the counts. If nothing was added since was, it returns that.
func (a *activity) read(was *events) *events {
	e := &events{
		submitted: a.submitted.Load(), started: a.started.Load(), done: a.done.Load(), failed: a.failed.Load(),
		cancelled: a.cancelled.Load(), errors: a.errors.Load(), retried: a.retried.Load(), busy: a.busy.Load(),
	}
	if was != nil && e.submitted == was.submitted && e.started == was.started && e.done == was.done && e.failed == was.failed &&
		e.cancelled == was.cancelled && e.errors == was.errors && e.retried == was.retried && e.busy == was.busy {
		return was
	}
	if e.started > 0 {
		e.delays = make([]uint64, delaySizes)
		for i := range e.delays {
			e.delays[i] = a.delays[i].Load()
		}
	}
	return e
}

// changed counts the newest change of a task.
func (a *activity) changed(t *task.Task) {
	switch t.State {
	case task.Done:
		a.done.Add(1)
	case task.Failed:
		a.failed.Add(1)
	case task.Cancelled:
		a.cancelled.Add(1)
	case task.Error:
		if n := len(t.History); n == 0 || t.History[n-1].Outcome < task.Edited || !t.History[n-1].EndedAt.Equal(t.UpdatedAt) {
			a.errors.Add(1)
		}
	case task.Waiting, task.Submitted:
		if ended, ok := endedNow(t); ok && (ended.Outcome == task.Errored || ended.Outcome == task.Crashed || ended.Outcome == task.TimedOut) {
			a.retried.Add(1)
		}
	case task.Processing:
	}
}

// activityNote is the activity of all types at one moment, since the node started.
type activityNote struct {
	at     time.Time // by the wall clock, with a monotonic reading
	byType map[string]*events
}

// history has the notes of the last minutes.
type history struct {
	mu    sync.Mutex
	notes []activityNote // guarded by mu: the oldest first; the events are never changed
}

// note returns the activity at a time, in which types that have done nothing since the last note share its values.
func (m *Metrics) note(now time.Time, last *activityNote) activityNote {
	n := activityNote{now, make(map[string]*events, len(m.types)+1)}
	for name, of := range m.types {
		n.byType[name] = of.activity.read(last.byType[name])
	}
	n.byType[""] = m.other.activity.read(last.byType[""])
	return n
}

// WatchActivity keeps notes of what tasks do, for [API.Overview], until ctx ends.
func (m *Metrics) WatchActivity(ctx context.Context) {
	next := time.NewTicker(activityEvery)
	defer next.Stop()
	for {
		m.noteActivity(time.Now())
		select {
		case <-next.C:
		case <-ctx.Done():
			return
		}
	}
}

// noteActivity adds a note.
func (m *Metrics) noteActivity(now time.Time) {
	h := &m.history
	h.mu.Lock()
	defer h.mu.Unlock()
	last := new(activityNote)
	if len(h.notes) > 0 {
		last = &h.notes[len(h.notes)-1]
	}
	h.notes = append(h.notes, m.note(now, last))
	if len(h.notes) > activityNotes {
		h.notes = append([]activityNote(nil), h.notes[len(h.notes)-activityNotes:]...)
	}
}

// activityUntil returns the notes, the present one included, and the one at which the window begins that ends now.
func (m *Metrics) activityUntil(now time.Time) (notes []activityNote, begin *activityNote) {
	m.history.mu.Lock()
	notes = append([]activityNote(nil), m.history.notes...)
	m.history.mu.Unlock()
	last := new(activityNote)
	if len(notes) > 0 {
		last = &notes[len(notes)-1]
	}
	notes = append(notes, m.note(now, last))
	begin = &notes[0]
	for i := range notes {
		if now.Sub(notes[i].at) < activityWindow {
			break
		}
		begin = &notes[i]
	}
	return notes, begin
}

// between returns the events of the given types from one note to another.
func between(from, until *activityNote, types ...string) *events {
	sum := new(events)
	for _, name := range types {
		if is, was := until.byType[name], from.byType[name]; is != nil && is != was {
			sum.plus(is, 1)
			if was != nil {
				sum.plus(was, -1)
			}
		}
	}
	return sum
}
