package scheduler

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/schedule"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

// Query selects schedules. The zero Query selects all.
type Query struct {
	Prefix  string // only schedules with names that begin with it
	Paused  bool   // only paused schedules
	Failing bool   // only schedules with an [Schedule.Error]
}

// selects reports whether q selects a schedule with its prefix.
func (q *Query) selects(s *Schedule) bool {
	return (!q.Paused || s.State.Paused != nil) && (!q.Failing || s.Error() != "")
}

const (
	// atOnce is how many schedules of a page are read or changed at the same time.
	atOnce = 32
	// leastRead and mostRead are how many schedules List reads at once, and for one page at most.
	leastRead = 100
	mostRead  = 2000
)

// List returns at most limit schedules that q selects, in the order of their names: those after the one with the name after
// ("": from the first). next is the value of after for the next page, "" at the end. List reads the schedules of the page, and
// not those with another prefix. A page may be short, or empty, before the end, because List reads a bounded number of
// schedules that q does not select or that were deleted. A schedule that cannot be read is listed with its Problem.
func (s Schedules) List(ctx context.Context, q Query, after string, limit int) (all []*Schedule, next string, err error) {
	next = after
	for left := max(mostRead, limit); len(all) < limit && left > 0; {
		some := min(max(limit, leastRead), left)
		page, err := s.page(ctx, q.Prefix, next, some)
		if err != nil {
			return nil, "", err
		}
		for _, one := range page {
			if len(all) == limit {
				return all, next, nil
			}
			if next = one.name; one.Schedule != nil && !one.State.Deleted && q.selects(one.Schedule) {
				all = append(all, one.Schedule)
			}
		}
		if len(page) < some {
			return all, "", nil
		}
		left -= some
	}
	return all, next, nil
}

// listed is a row of a page.
type listed struct {
	name      string
	*Schedule // nil if the row is gone
}

// page returns the schedules with names that begin with prefix, at most limit after one, also deleted ones.
func (s Schedules) page(ctx context.Context, prefix, after string, limit int) ([]listed, error) {
	holders, err := s.engine.Keyed(ctx, schedule.Type, prefix, after, limit)
	if err != nil {
		return nil, fmt.Errorf("list the schedules: %w", err)
	}
	page := make([]listed, len(holders))
	err = inParallel(ctx, len(page), func(ctx context.Context, i int) (err error) {
		page[i].name = holders[i].Key
		page[i].Schedule, err = s.read(ctx, holders[i])
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list the schedules: %w", err)
	}
	return page, nil
}

// read returns a schedule for a list; nil if its row is gone.
func (s Schedules) read(ctx context.Context, of storage.KeyHolder) (*Schedule, error) {
	t, err := s.engine.Get(ctx, of.ID)
	if errors.Is(err, task.ErrNotFound) {
		return nil, nil
	}
	if err != nil && !errors.Is(err, engine.ErrUnreadable) {
		return nil, err
	}
	one := scheduleOf(t, err)
	one.Name = of.Key
	if p, ok := peersOf(s.engine); ok && one.Problem == nil {
		if one.kept, err = p.read(ctx, one.Name); errors.Is(err, engine.ErrUnreadable) {
			return &Schedule{Name: one.Name, Task: t, Problem: fmt.Errorf("%w: %w", ErrUnreadable, err)}, nil
		} else if err != nil {
			return nil, err
		}
		one.share()
	}
	return one, nil
}

// inParallel calls fn with the numbers from 0 to n, several at the same time. It returns the first error, after which no other
// call begins.
func inParallel(ctx context.Context, n int, fn func(ctx context.Context, i int) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var calls sync.WaitGroup
	slots := make(chan struct{}, atOnce)
	for i := range n {
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
		}
		if ctx.Err() != nil {
			break
		}
		calls.Go(func() {
			defer func() { <-slots }()
			if err := fn(ctx, i); err != nil {
				cancel(err)
			}
		})
	}
	calls.Wait()
	return context.Cause(ctx)
}

// Error returns why a schedule cannot run; "" if it can.
func (s *Schedule) Error() string {
	switch {
	case s.Problem != nil:
		return s.Problem.Error()
	case s.FailedAttempts() > 0 || !s.Task.State.Live():
		return s.Task.LastError
	}
	return ""
}

// FailedAttempts returns how many attempts to run a schedule have failed since it last ran.
func (s *Schedule) FailedAttempts() uint32 {
	n := s.Task.Attempt
	if s.Task.State == task.Processing {
		n -= min(1, n) // this one has not failed
	}
	return n
}
