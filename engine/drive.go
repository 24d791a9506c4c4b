package engine

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/taskengine/taskengine/engine/internal/blocks"
	"github.com/taskengine/taskengine/engine/internal/core"
	"github.com/taskengine/taskengine/engine/internal/feed"
	"github.com/taskengine/taskengine/engine/internal/shell"
	"github.com/taskengine/taskengine/internal/workpool"
	"github.com/taskengine/taskengine/task"
)

// state is the state that the mutex of the engine guards: the shell with its core, and the
// attempts of the tasks that the core knows.
type state struct {
	*shell.Shell
	clock    clock
	attempts map[task.ID]*attempt // with a running handler
	begun    []*attempt           // buffer of perform
	waiters  waiters
	blocks   *blocks.Log   // what kept tasks from starting
	isNoting bool          // noteLoop looks at that
	feed     *feed.Feed    // the newest changes, for readers
	effects  shell.Effects // buffer of tell
	events   shell.Events  // buffer of drain
	armed    time.Time     // when the ticker wakes
	openTxs  openTxs

	stopCause  error // why new attempts are stopped at once; nil if they are not
	failure    error // why the engine has failed
	isClosing  bool  // no task is accepted or started
	isSurveyed bool  // Engine.surveyed is closed
	isDrained  bool  // Engine.drained is closed
}

// news has the answers to callers and the lines of the log, for the time when the mutex is unlocked.
type news struct {
	replies []shell.Reply
	logs    []shell.Log
	failure error
}

// tell calls fn to pass events to the shell, and performs the effects. fn must not wait.
func (e *Engine) tell(fn func(s *state, now time.Time)) {
	e.mu.Lock()
	now := e.drain()
	fn(&e.state, now)
	n := e.perform(&e.state.effects)
	n.replies, n.logs = slices.Clone(n.replies), slices.Clone(n.logs)
	e.wakeWriters()
	e.mu.Unlock()
	e.deliver(n)
}

// decide is tell for events of the core.
func (e *Engine) decide(fn func(c *core.Core, now time.Time)) {
	e.tell(func(s *state, now time.Time) { fn(s.Core(), now) })
}

// drain passes the inbox to the shell, and returns the time. It is called with mu held,
// before any other event is passed to the shell.
func (e *Engine) drain() (now time.Time) {
	s := &e.state
	e.inbox.take(&s.events)
	now = s.clock.now() // not before: the clock may have been set since, and a task added by it
	if s.events.Len() > 0 {
		for i := range s.events.Endings {
			delete(s.attempts, s.events.Endings[i].Ref.ID)
		}
		s.Pass(now, &s.events)
		s.events.Reset()
	}
	return now
}

// perform collects the effects of the shell, and passes them to the goroutines that carry them out.
// The result is for deliver, and is valid until the next call with the same ef. It is called
// with mu held, after every event.
func (e *Engine) perform(ef *shell.Effects) news {
	s := &e.state
	s.Collect(ef)
	if len(ef.Loads)+len(ef.Scans)+len(ef.DueLoads) > 0 {
		e.reader.add(&ef.Ready)
	}
	if len(ef.Hints) > 0 {
		e.cluster.Hint(ef.Hints)
	}
	for _, stop := range ef.Stops {
		if a, ok := s.attempts[stop.ID]; ok {
			a.stop(stop.Cause)
		}
	}
	if len(ef.Orders)+len(ef.Draws) > 0 {
		e.cluster.Order(ef.Orders, ef.Draws)
	}
	for _, w := range ef.Wants {
		e.handlers.pools.uses[w.Pool].Want(w.Tasks)
	}
	if len(ef.Runs) > 0 {
		for _, run := range ef.Runs {
			s.begun = append(s.begun, e.begin(run))
		}
		e.handlers.workers.Add(s.begun...)
		clear(s.begun)
		s.begun = s.begun[:0]
	}
	if !s.isSurveyed && s.Core().Surveyed() {
		s.isSurveyed = true
		close(e.surveyed)
	}
	if s.isClosing && !s.isDrained && s.IsDrained() {
		s.isDrained = true
		close(e.drained)
	}
	if ef.Check {
		e.wakes.uncertain.Set()
	}
	if ef.Held {
		lanes := s.Held(s.clock.last)
		e.reader.use(e.abilities.divided.Without(lanes...), len(lanes) > 0)
	}
	if ef.Released {
		e.reader.release()
	}
	if wake := s.Wake(); !wake.IsZero() && (s.armed.IsZero() || wake.Before(s.armed)) {
		s.armed = wake
		e.wakes.tick.Set()
	}
	if !s.isNoting && s.Core().HasUnnoted() {
		s.isNoting = true
		e.wakes.blocks.Set()
	}
	return news{ef.Replies, ef.Logs, ef.Failure}
}

// deliver sends replies to callers, and logs. It is called without mu.
func (e *Engine) deliver(n news) {
	for _, r := range n.replies {
		r.Send()
	}
	for _, l := range n.logs {
		e.log.Log(context.Background(), levels[l.Level], l.Text, l.Args...)
	}
	if n.failure != nil {
		e.fail(n.failure)
	}
}

var levels = [...]slog.Level{shell.Debug: slog.LevelDebug, shell.Info: slog.LevelInfo, shell.Warn: slog.LevelWarn, shell.Error: slog.LevelError}

// maxTick is how long the ticker sleeps at most. Timers do not count the time that the machine
// sleeps, and do not follow a wall clock that is set.
const maxTick = time.Minute

// tickLoop passes the time to the shell when that has something to do. It also watches the offset of
// the wall clock.
func (e *Engine) tickLoop(ctx context.Context) {
	timer := time.NewTimer(maxTick)
	defer timer.Stop()
	watch := clockWatch{log: e.log}
	for {
		if o, ok := e.ClockOffset(); ok {
			watch.look(o)
		}
		select {
		case <-ctx.Done():
			return
		case <-e.wakes.tick.C():
		case <-timer.C:
			e.tell(func(s *state, now time.Time) {
				s.armed = time.Time{}
				s.Tick(now)
			})
		}
		e.mu.Lock()
		wait := maxTick
		if s := &e.state; !s.armed.IsZero() {
			wait = min(wait, max(0, s.armed.Sub(s.clock.now())))
		}
		e.mu.Unlock()
		timer.Reset(wait)
	}
}

// stepped passes a step of the clock to the shell and the ticker. It is called with mu held.
func (e *Engine) stepped(by time.Duration) {
	e.state.Step(by)
	e.wakes.tick.Set() // the next tick may be due now
}

// drainLoop drains the inbox of an engine on several databases: the
// writers of one of them may wait for it.
func (e *Engine) drainLoop(ctx context.Context) {
	for {
		select {
		case <-e.inbox.arrived.C():
			workpool.Gather(e.inbox.count)
			e.tell(func(*state, time.Time) {})
		case <-ctx.Done():
			return
		}
	}
}
