package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/taskengine/taskengine/coord"
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

// timebase is the clock by which the tasks of an engine go. It is read only.
type timebase struct {
	manual *manualClock     // see Config.Manual; nil for one that goes
	shared coord.Clock      // that of the cluster; nil for the wall clock of the machine
	wall   func() time.Time // that of the machine; nil for time.Now
}

// timebaseOf returns the clock that a configuration says.
func timebaseOf(c *Config) (timebase, error) {
	b := timebase{shared: c.Coordinator.Clock, wall: c.wall}
	if !c.Manual.IsZero() {
		if c.Coordinator.Membership != nil || c.Coordinator.Clock != nil {
			return b, errors.New("engine: Config.Manual is for an engine that is the only node: its Coordinator must have no Membership and no Clock")
		}
		b.manual = &manualClock{now: task.Stamp(c.Manual)}
		return b, nil
	}
	return b, nil
}

// check returns an error if the clock that nodes share was not read yet, though this node has joined.
func (b timebase) check() error {
	if b.shared == nil {
		return nil
	}
	if _, _, ok := b.shared.ClockAt(b.moment()); !ok {
		return errors.New("the Clock of Config.Coordinator does not know the time yet: wait until it was read before you open the engine")
	}
	return nil
}

// moment returns the time of the wall clock of the machine.
func (b timebase) moment() time.Time {
	if b.wall != nil {
		return b.wall()
	}
	return time.Now()
}

// at returns the time of the clock at a moment t.
func (b timebase) at(t time.Time) time.Time {
	if b.manual != nil {
		return b.manual.at(t)
	}
	if b.shared != nil {
		if shared, _, ok := b.shared.ClockAt(t); ok {
			return shared.Round(0)
		}
	}
	return t.Round(0)
}

// Now returns the time by which the tasks of the engine go: by the clock that the nodes of its store
// share, see [coord.Coordinator], and otherwise by the wall clock of the machine.
func (e *Engine) Now() time.Time {
	if e.base.manual != nil {
		return e.base.manual.read()
	}
	return e.base.at(e.base.moment())
}

// clock is a timebase that is safe to decide by. When the timebase is set by more than maxSlew, forward
// or back, clock follows at once and reports the step, so that durations become neither longer nor
// shorter. It does not report a smaller step. It follows a smaller step forward at once; after a
// smaller step back it does not go back, but runs at half speed until it agrees with the timebase
// again.
type clock struct {
	last    time.Time           // last result of now
	read    time.Time           // when that was, with a monotonic reading
	stepped func(time.Duration) // called with each step; may be nil
	base    timebase            // the clock that it follows
	skew    time.Duration       // by how much tests have set the timebase
}

// maxSlew is how far this clock and the timebase may differ.
const maxSlew = time.Second

func (c *clock) now() time.Time {
	t := c.base.moment()
	if c.base.manual != nil {
		c.last, c.read = c.base.manual.read(), t
		return c.last
	}
	now := c.base.at(t).Add(c.skew)
	if c.last.IsZero() {
		c.last, c.read = now, t
		return now
	}
	elapsed := t.Sub(c.read) // monotonic: the time that the machine sleeps is a step
	c.read = t
	switch ahead := now.Sub(c.last.Add(elapsed)); {
	case ahead > maxSlew || ahead < -maxSlew:
		c.last = now
		if c.stepped != nil {
			c.stepped(ahead)
		}
	case ahead < 0:
		c.last = later(now, c.last.Add(elapsed/2))
	default:
		c.last = now
	}
	return c.last
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
