package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/taskengine/taskengine/task"
)

// manualClock is a clock that stands still until it is moved.
type manualClock struct {
	mu  sync.Mutex
	now time.Time // guarded by mu
}

func (m *manualClock) read() time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.now
}

func (m *manualClock) set(now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.now = now
}

// at returns the time of a moment of the machine, as if the clock went on from now.
func (m *manualClock) at(moment time.Time) time.Time {
	return m.read().Add(time.Until(moment)).Round(0)
}

// settlePoll is how often Advance looks whether something is left to be done.
const settlePoll = time.Millisecond

// Advance lets time pass on an engine with [Config.Manual]: the clock jumps from one moment at which something is due to the
// next, and stands still while something is done. Advance returns when nothing is left to be done at the end of d, which
// may be 0. So tasks that are due in that time are run at their times, one after the other.
//
// Handlers take no time: Advance waits until they have returned, and returns an error that wraps the error of ctx if one does
// not. If whileRunning is set, it does not wait for handlers, for tests of events during an attempt, such as its timeout.
func (e *Engine) Advance(ctx context.Context, d time.Duration, whileRunning bool) error {
	clock := e.base.manual
	switch {
	case clock == nil:
		return errors.New("engine: the time goes by itself: only an engine with Config.Manual can be advanced")
	case d < 0:
		return fmt.Errorf("%w: time does not go back, by %v", ErrInvalid, -d)
	}
	end := clock.read().Add(d)
	for {
		if err := e.awaitRest(ctx, whileRunning); err != nil {
			return err
		}
		var next time.Time
		e.tell(func(s *state, now time.Time) {
			if next = s.Wake(); next.IsZero() || next.After(end) {
				next = end
			}
			next = later(next, now)
		})
		isOver := !next.Before(end)
		clock.set(next)
		e.tell(func(s *state, now time.Time) {
			s.armed = time.Time{}
			s.Tick(now)
		})
		if isOver {
			return e.awaitRest(ctx, whileRunning)
		}
	}
}

// awaitRest returns when nothing is left to be done before time goes on.
func (e *Engine) awaitRest(ctx context.Context, whileRunning bool) error {
	for settled := 0; settled < 2; { // twice, because tasks that the first look has found due are only begun after it
		var running []task.ID
		isSettled := false
		e.tell(func(s *state, now time.Time) {
			for id := range s.attempts {
				running = append(running, id)
			}
			due := s.Wake()
			isSettled = s.IsSettled(len(s.attempts)) && e.inbox.count() == 0 && e.reader.isIdle() && (due.IsZero() || due.After(now)) &&
				(whileRunning || len(running) == 0)
		})
		if isSettled {
			settled++
			continue
		}
		settled = 0
		select {
		case <-time.After(settlePoll):
		case <-ctx.Done():
			slices.SortFunc(running, task.ID.Compare)
			return fmt.Errorf("engine: something is still to be done, and %d tasks run: %v: %w", len(running), running[:min(len(running), 10)], context.Cause(ctx))
		}
	}
	return nil
}
