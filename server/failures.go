package server

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/task"
)

// FailureLog logs failed attempts at level info, because a failing task is no failure of the engine. It logs at most
// failureLines a minute and counts the others. The engine never waits for it: failures that come faster than they can be
// written are counted too. Tasks that became errors need a person: they are summarized at level warn, once a minute for
// each type.
type FailureLog struct {
	log     *slog.Logger
	entries chan failure
	missed  atomic.Uint64 // failures that were not logged since the last summary
	errors  errorSummary
	done    chan struct{} // closed when all entries are written
}

// failureBacklog is how many failures may wait to be logged.
const failureBacklog = 1024

// failureLines is how many failures are logged in a minute.
const failureLines = 100

type failure struct {
	id      task.ID
	typ     string
	attempt uint32
	outcome task.Outcome
	state   task.State
	next    time.Time
	took    time.Duration
	err     string
}

// NewFailureLog returns a failure log that writes to log until it is closed.
func NewFailureLog(log *slog.Logger) *FailureLog {
	f := &FailureLog{log: log, entries: make(chan failure, failureBacklog), done: make(chan struct{})}
	go f.write()
	return f
}

// Observer returns the observer for the configuration of the engine.
func (f *FailureLog) Observer() engine.Observer { return engine.Observer{Saved: f.saved} }

// Close logs the remaining failures. The engine must be closed before.
func (f *FailureLog) Close() {
	close(f.entries)
	<-f.done
}

func (f *FailureLog) saved(_ time.Time, _ task.Ref, t *task.Task) {
	if t == nil {
		return
	}
	a, ended := endedNow(t)
	if t.State == task.Error && !ended {
		a = task.Attempt{Number: t.Attempt, Error: t.LastError} // it expired before it began
	} else if !ended || !isFailure(a.Outcome) {
		return
	}
	if t.State == task.Error {
		f.errors.add(t.ID, t.Type)
	}
	entry := failure{
		id: t.ID, typ: t.Type, attempt: a.Number, outcome: a.Outcome, state: t.State,
		took: a.EndedAt.Sub(a.StartedAt), err: a.Error,
	}
	if t.State == task.Waiting {
		entry.next = t.NextEventAt
	}
	select {
	case f.entries <- entry:
	default:
		f.missed.Add(1)
	}
}

func isFailure(o task.Outcome) bool {
	return o == task.Errored || o == task.Crashed || o == task.TimedOut
}

func (f *FailureLog) write() {
	defer close(f.done)
	minutes := time.NewTicker(summaryInterval)
	defer minutes.Stop()
	for lines := 0; ; {
		select {
		case e, ok := <-f.entries:
			switch {
			case !ok:
				f.writeSummary()
				return
			case lines == failureLines:
				f.missed.Add(1)
			default:
				lines++
				f.writeEntry(e)
			}
		case <-minutes.C:
			lines = 0
			f.writeSummary()
		}
	}
}

// writeSummary logs how many failures were not logged, and which tasks became errors.
func (f *FailureLog) writeSummary() {
	if missed := f.missed.Swap(0); missed > 0 {
		f.log.Info("more attempts failed than are logged one by one", "left_out", missed)
	}
	f.errors.write(f.log)
}

// writeEntry logs one failure.
func (f *FailureLog) writeEntry(e failure) {
	message := "an attempt failed"
	if e.state == task.Error {
		message = "a task failed and needs a person"
	}
	attrs := []slog.Attr{
		slog.String("task_id", e.id.String()), slog.String("type", text(e.typ)),
		slog.Int("attempt", int(e.attempt)), slog.String("state", e.state.String()),
	}
	if isFailure(e.outcome) {
		attrs = append(attrs, slog.String("outcome", e.outcome.String()), slog.Duration("took", e.took))
	}
	if !e.next.IsZero() {
		attrs = append(attrs, slog.Time("next", e.next))
	}
	f.log.LogAttrs(context.Background(), slog.LevelInfo, message, append(attrs, slog.String("error", text(e.err)))...)
}
