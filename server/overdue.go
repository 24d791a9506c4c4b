package server

import (
	"context"
	"time"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/schedule/scheduler"
)

const (
	// lateBy is how late a schedule is that counts as overdue.
	lateBy = time.Minute
	// overdueEvery is the time between two looks for overdue schedules.
	overdueEvery = 30 * time.Second
	// overduePages and overduePage bound how many schedules are read in a look, which takes overduePatience at most.
	overduePages    = 10
	overduePage     = 1000
	overduePatience = 10 * time.Second
)

// overdue is the result of a look at the schedules.
type overdue struct {
	schedules int           // that are late by lateBy
	longest   time.Duration // how late the latest is; 0 if none is
}

// WatchSchedules adds how many schedules are overdue, on the node with the role monitor. It looks until ctx ends.
func (m *Metrics) WatchSchedules(ctx context.Context, e *engine.Engine) {
	var l scheduler.Lookout
	next := time.NewTicker(overdueEvery)
	defer next.Stop()
	for {
		select {
		case <-next.C:
		case <-ctx.Done():
			return
		}
		if !e.Roles()["monitor"] {
			l = scheduler.Lookout{}
			m.overdue.Store(nil)
			continue
		}
		m.overdue.Store(lookForOverdue(ctx, e, &l))
	}
}

// lookForOverdue returns nil if it is not known which schedules are overdue.
func lookForOverdue(ctx context.Context, e *engine.Engine, l *scheduler.Lookout) *overdue {
	ctx, cancel := context.WithTimeout(ctx, overduePatience)
	defer cancel()
	now := e.Now()
	for page := 0; page == 0 || page < overduePages && !l.AtEnd(); page++ {
		if l.Look(ctx, scheduler.Of(e), now, overduePage) != nil {
			return nil
		}
	}
	late, ok := l.Late()
	if !ok {
		return nil
	}
	seen := new(overdue)
	for _, s := range late {
		by := now.Sub(s.Since)
		seen.longest = max(seen.longest, by)
		if by >= lateBy {
			seen.schedules++
		}
	}
	return seen
}

// schedules adds the schedules that are overdue. Only the node with the role of the monitor knows.
func (g gatherer) schedules(gauge gaugeFunc) {
	seen := g.overdue.Load()
	if seen == nil {
		return
	}
	const who = " Of the nodes that share a store, the one with the role monitor reports it, and looks every half minute at 10000 schedules."
	gauge(desc("schedules_overdue", "Schedules that have not run for more than a minute although their time has come."+who), float64(seen.schedules))
	gauge(desc("schedule_late_seconds", "How late the most overdue schedule is. 0 if no schedule is overdue."+who), seen.longest.Seconds())
}
