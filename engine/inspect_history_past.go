package engine

import (
	"fmt"
	"slices"
	"time"

	"github.com/taskengine/taskengine/engine/internal/table"
	"github.com/taskengine/taskengine/task"
)

type limitOfTask = table.Counted

// phase is a part of the time of a task.
type phase struct {
	Wait
	isReady   bool // it was ready: notes say why it did not start
	isForeign bool // of these: notes of another node
}

// pastOf returns the time of a task from its creation to its end or now, as far as its row says it. isForeign says that another
// node had it last.
func pastOf(t *task.Task, now time.Time, isForeign bool) (all []phase) {
	end := now
	if !t.State.Live() {
		end = t.UpdatedAt
	}
	at := t.CreatedAt
	add := func(to time.Time, code, text string) {
		if to.After(end) {
			to = end
		}
		if !to.After(at) {
			return
		}
		p := phase{Wait: Wait{Code: code, Text: text, From: at, Until: to}}
		if p.isReady = code == ""; p.isReady {
			p.isForeign = isForeign
		}
		all, at = append(all, p), to
	}
	runs := runsOf(t, end)
	for i, r := range runs {
		switch {
		case i > 0:
			add(r.StartedAt, CodeRetry, fmt.Sprintf("its next attempt, and for a slot when that was due, after an attempt that was %s", runs[i-1].Outcome))
		case r.Number > 1:
			add(r.StartedAt, CodeUnknown, "its earlier attempts are not in its history any more")
		case t.ReadyAt.After(r.StartedAt):
			add(r.StartedAt, CodeUnknown, "when it was ready is not kept, because it ran again later")
		default:
			add(t.ReadyAt, CodeScheduled, "its time")
			add(r.StartedAt, "", "")
		}
		at = latest(at, r.StartedAt)
		add(r.EndedAt, CodeRunning, "it ran")
	}
	if !t.State.Live() && len(runs) > 0 {
		add(end, CodeRetry, "its next attempt, which did not follow")
		return all
	}
	switch t.State {
	case task.Submitted:
		if len(runs) > 0 {
			add(t.UpdatedAt, CodeRetry, "its next attempt")
		} else {
			add(t.ReadyAt, CodeScheduled, "its time")
		}
	case task.Waiting:
		switch names := t.Awaits(); {
		case slices.Contains(names, task.AwaitsChildren):
			add(end, CodeChildren, "its children")
		case slices.Contains(names, task.AfterSet):
			add(end, CodeAfter, "tasks after which it runs")
		case names != nil:
			add(end, CodeSignal, "a signal")
		case t.Attempt > 0:
			add(earliest(t.NextEventAt, end), CodeRetry, "its next attempt")
		default:
			add(earliest(t.NextEventAt, end), CodeScheduled, "its time")
		}
	default:
		add(t.ReadyAt, CodeScheduled, "its time")
	}
	add(end, "", "")
	return all
}

// runsOf returns the attempts of a task: those of its history, and the newest.
func runsOf(t *task.Task, end time.Time) []task.Attempt {
	runs := slices.DeleteFunc(slices.Clone(t.History), func(a task.Attempt) bool { return a.Outcome.ByPeople() })
	if t.StartedAt.IsZero() || t.Attempt == 0 {
		return runs
	}
	if n := len(runs); n > 0 && !t.StartedAt.After(runs[n-1].StartedAt) {
		return runs
	}
	if t.State != task.Processing && t.State.Live() {
		return runs // it was handed back
	}
	return append(runs, task.Attempt{Number: t.Attempt, StartedAt: t.StartedAt, EndedAt: end, Node: t.Node})
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// earliest returns the earlier time; the zero time is never.
func earliest(a, b time.Time) time.Time {
	if a.IsZero() || a.After(b) {
		return b
	}
	return a
}
