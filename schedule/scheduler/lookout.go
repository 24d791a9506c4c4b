package scheduler

import (
	"context"
	"maps"
	"time"

	"github.com/taskengine/taskengine/engine/task"
)

// Lookout finds the schedules that are late, a bounded number of schedules at a time. Those of a store
// with more are read in turns. The zero value has read none. One goroutine uses it.
type Lookout struct {
	next  task.ID         // where to go on; zero at the beginning
	turn  map[string]Late // found in this turn, by the name of the schedule
	found map[string]Late // found in the last turn that has ended
	whole bool            // a turn has ended
}

// Look reads the next limit schedules. After an error the next Look tries the same ones.
func (l *Lookout) Look(ctx context.Context, s Schedules, now time.Time, limit int) error {
	late, next, err := s.Late(ctx, now, l.next, limit)
	if err != nil {
		return err
	}
	if l.next.IsZero() {
		l.turn = make(map[string]Late)
	}
	for _, one := range late {
		l.turn[one.Name] = one
	}
	if l.next = next; next.IsZero() {
		l.found, l.whole = l.turn, true
	}
	return nil
}

// AtEnd reports whether the next Look begins a turn.
func (l *Lookout) AtEnd() bool { return l.next.IsZero() }

// Late returns the schedules that were late when they were read in the last turn that has ended. ok is
// false if none has.
func (l *Lookout) Late() (late map[string]Late, ok bool) { return maps.Clone(l.found), l.whole }
