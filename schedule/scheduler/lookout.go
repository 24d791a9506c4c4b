package scheduler

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/task"
)

// Lookout finds late schedules. Each call reads a bounded number of schedules; a store with more is
// read in turns. The zero value has read none. One goroutine uses it.
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

// Late is a schedule that is late.
type Late struct {
	Name  string
	Since time.Time  // the due time that it has not run for
	Task  *task.Task // without payload and checkpoint
}

// Late reads limit schedules and returns the ones that have not run for a time before now, because their attempts fail or no
// node runs them. after and next are as in List. For a schedule that nodes with stores of their own share, that is a time that
// none of them has fired for, or that one has claimed and not committed.
func (s Schedules) Late(ctx context.Context, now time.Time, after task.ID, limit int) (all []Late, next task.ID, err error) {
	rows, next, err := s.rows(ctx, after, limit)
	if err != nil {
		return nil, task.ID{}, err
	}
	var shared map[string]kept
	if p, ok := peersOf(s.engine); ok {
		if shared, err = p.all(ctx); err != nil {
			return nil, task.ID{}, err
		}
	}
	for _, t := range rows {
		k, since := shared[nameOf(t)], t.ReadyAt
		if k.Shared != nil {
			since = k.Late()
		} else if !t.State.Live() && t.State != task.Error {
			continue
		}
		if since.IsZero() || !since.Before(now) {
			continue
		}
		one, err := s.engine.Get(ctx, t.ID)
		isUnreadable := errors.Is(err, engine.ErrUnreadable)
		if err != nil && !isUnreadable && !errors.Is(err, task.ErrNotFound) {
			return nil, task.ID{}, fmt.Errorf("look for late schedules: %w", err)
		}
		if err != nil && !isUnreadable || k.Shared == nil && one.Version != t.Version {
			continue // it has run since
		}
		all = append(all, Late{Name: scheduleOf(one, err).Name, Since: since, Task: t})
	}
	return all, next, nil
}
