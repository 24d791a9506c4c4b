package alerting

import (
	"context"
	"time"

	"github.com/taskengine/taskengine/alert"
	"github.com/taskengine/taskengine/schedule/scheduler"
)

// schedulesAtOnce is how many schedules a look reads. A store with more is read in turns.
const schedulesAtOnce = 1000

// schedules adds the schedules that are late.
func (l *look) schedules(ctx context.Context, seen *alert.Look) {
	ctx, cancel := context.WithTimeout(ctx, readPatience)
	defer cancel()
	if l.late.Look(ctx, scheduler.Of(l.config.Engine), seen.At, schedulesAtOnce) != nil {
		return
	}
	late, ok := l.late.Late()
	for name, s := range late {
		f := alert.Fact{
			Kind: alert.ScheduleOverdue, Subject: name, Value: seen.At.Sub(s.Since).Truncate(time.Second).Seconds(),
			Detail: "its task is " + s.Task.ID.String(),
		}
		if s.Task.LastError != "" {
			f.Detail += ": " + s.Task.LastError
		}
		seen.Facts = append(seen.Facts, f)
	}
	if ok {
		seen.Whole = append(seen.Whole, alert.ScheduleOverdue)
	}
}
