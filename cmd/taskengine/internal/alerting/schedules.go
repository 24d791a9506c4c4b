package alerting

import (
	"context"
	"time"

	"github.com/taskengine/taskengine/alert"
	"github.com/taskengine/taskengine/engine/task"
	"github.com/taskengine/taskengine/schedule/scheduler"
)

// schedulesAtOnce is how many schedules are read in a look. Those of a store with more are read in turns.
const schedulesAtOnce = 1000

// lateSeen is what was read of schedules.
type lateSeen struct {
	next  task.ID               // where to go on; zero at the beginning
	found map[string]alert.Fact // by the name of the schedule, in this turn and, of those not read yet, in the one before
	turn  map[string]alert.Fact // of this turn
	whole bool                  // all were read once
}

// schedules adds the schedules that are late.
func (l *look) schedules(ctx context.Context, seen *alert.Look) {
	ctx, cancel := context.WithTimeout(ctx, readPatience)
	defer cancel()
	late, next, err := scheduler.Of(l.config.Engine).Late(ctx, seen.At, l.late.next, schedulesAtOnce)
	if err != nil {
		return
	}
	if l.late.next.IsZero() {
		l.late.turn = make(map[string]alert.Fact)
	}
	for _, s := range late {
		f := alert.Fact{
			Kind: alert.ScheduleOverdue, Subject: s.Name, Value: seen.At.Sub(s.Since).Truncate(time.Second).Seconds(),
			Detail: "its task is " + s.Task.ID.String(),
		}
		if s.Task.LastError != "" {
			f.Detail += ": " + s.Task.LastError
		}
		l.late.turn[s.Name] = f
	}
	if l.late.next = next; next.IsZero() {
		l.late.found, l.late.whole = l.late.turn, true
	}
	for _, f := range l.late.found {
		seen.Facts = append(seen.Facts, f)
	}
	if l.late.whole {
		seen.Whole = append(seen.Whole, alert.ScheduleOverdue)
	}
}
