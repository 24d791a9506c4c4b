package scheduler

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/internal/ratelog"
	"github.com/taskengine/taskengine/internal/reserved"
	"github.com/taskengine/taskengine/schedule"
	"github.com/taskengine/taskengine/task"
)

// maxKept is how many bytes a schedule may have that the peers keep, before it is compressed or encrypted: a coordinator takes
// no large values.
const maxKept = 256 << 10

// share makes s be as the peers keep it, if they keep it.
func (s *Schedule) share() {
	if s.kept.Shared == nil || s.Problem != nil {
		return
	}
	s.stored, s.Holder, s.Next = s.kept.State, s.kept.Holder.Name, s.kept.Next()
	s.Definition, s.State = s.kept.State.Foresee(s.kept.Definition)
}

// order adds an order to a schedule that the peers keep. size is the size of its state with the order, in bytes. It returns
// errChanged if the schedule has changed since it was read, or if this node has not shared it yet.
func (p peers) order(ctx context.Context, at *Schedule, o schedule.Order, size int) error {
	if at.kept.Shared == nil {
		return errChanged
	}
	if size > maxKept {
		return fmt.Errorf("schedule %s: %w: with the order its state has %d bytes, of %d allowed where nodes coordinate; try again when the %d orders that wait are carried out",
			at.Name, ErrBusy, size, maxKept, len(at.stored.Orders))
	}
	swapped, err := p.swap(ctx, at.kept, at.kept.Order(o))
	if err == nil && !swapped {
		err = errChanged
	}
	return err
}

// Follow watches the schedules in the coordinator of nodes with stores of their own, until ctx ends: it runs schedules of this
// engine when they change there, and adds the schedules of other nodes. Without such nodes it returns at once. It logs errors,
// and tries again.
func (s Schedules) Follow(ctx context.Context, log *slog.Logger) {
	p, ok := peersOf(s.engine)
	if !ok {
		return
	}
	f := &follower{
		Schedules: s, peers: p, log: log, states: make(chan []coord.Setting, 1), seen: map[string]uint64{}, pending: map[string]*schedule.Shared{}, reports: map[string]bool{},
	}
	var watching sync.WaitGroup
	watching.Go(func() { f.watch(ctx) })
	defer watching.Wait()
	for err := f.begin(ctx); err != nil; err = f.begin(ctx) {
		f.failed(err)
		if !rest(ctx, askAgain) {
			return
		}
	}
	f.run(ctx)
}

// follower is the state of Follow. One goroutine uses it, except where a field says otherwise.
type follower struct {
	Schedules
	peers    peers
	log      *slog.Logger
	failures ratelog.Limiter             // may be used by any goroutine
	states   chan []coord.Setting        // the newest settings; the goroutine of watch replaces a value that was not received
	seen     map[string]uint64           // versions, by name
	pending  map[string]*schedule.Shared // schedules to run, by name; nil for one that the peers do not keep
	reports  map[string]bool             // names of schedules of other nodes that have tasks on this one
}

// failed logs an error after which something is tried again.
func (f *follower) failed(err error) {
	if f.failures.Allow() {
		f.log.Warn("the node cannot read the changes of schedules by other nodes at present", "error", err)
	}
}

// watch receives the settings.
func (f *follower) watch(ctx context.Context) {
	for ctx.Err() == nil {
		err := f.peers.settings.Watch(ctx, settingsName, func(all []coord.Setting) {
			select {
			case <-f.states:
			default:
			}
			f.states <- all
		})
		if err != nil && ctx.Err() == nil {
			f.failed(fmt.Errorf("watch the schedules of other nodes: %w", err))
		}
		rest(ctx, askAgain)
	}
}

// begin has all schedules of this store run: the node has another ID than before.
func (f *follower) begin(ctx context.Context) error {
	for after := (task.ID{}); ; {
		rows, next, err := f.rows(ctx, after, 1000)
		if err != nil {
			return err
		}
		for _, row := range rows {
			f.pending[nameOf(row)] = nil
		}
		if after = next; after.IsZero() {
			return nil
		}
	}
}

// retryPending is the pause before another try with a schedule that was running.
const retryPending = 100 * time.Millisecond

func (f *follower) run(ctx context.Context) {
	again := time.NewTimer(0)
	defer again.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case all := <-f.states:
			f.compare(all)
		case <-again.C:
		}
		pause := time.Hour
		if len(f.reports) > 0 {
			pause = askAgain
		}
		for name, kept := range f.pending {
			done, err := f.runNow(ctx, name, kept)
			if done {
				delete(f.pending, name)
			} else if err == nil {
				pause = min(pause, retryPending)
			}
			if err != nil {
				pause = min(pause, askAgain)
				f.failed(err)
			}
		}
		for name := range f.reports {
			if err := f.report(ctx, name); err != nil {
				f.failed(err)
			}
		}
		again.Reset(pause)
	}
}

// compare finds the changed schedules.
func (f *follower) compare(all []coord.Setting) {
	now := make(map[string]uint64, len(all))
	self := f.engine.Incarnation()
	for _, one := range all {
		now[one.Scope] = one.Version
		if f.seen[one.Scope] == one.Version {
			continue
		}
		k, err := f.peers.open(one)
		if err != nil {
			continue // the next run of the schedule says why
		}
		f.pending[one.Scope] = k.Shared
		if k.Holder.ID != self && k.Concerns(self) {
			f.reports[one.Scope] = true
		} else {
			delete(f.reports, one.Scope)
		}
	}
	for name := range f.seen {
		if now[name] == 0 {
			f.pending[name] = nil
		}
	}
	f.seen = now
}

// report reports the ended tasks on this node of a schedule that another node fires, and cancels the tasks that it has to
// cancel. The schedule need not run here for that: all slots may be in use.
func (f *follower) report(ctx context.Context, name string) error {
	t, err := f.engine.Get(ctx, IDOf(name))
	if err != nil {
		return fmt.Errorf("read schedule %s: %w", name, err)
	}
	_, s, err := schedule.Decode(t.Payload, t.Checkpoint())
	if err != nil || s.Copy == nil {
		return err
	}
	was, err := f.peers.read(ctx, name)
	if err != nil || was.Shared == nil || was.Owed(s.Copy) != nil {
		return err
	}
	next, isChanged, err := f.peers.settle(ctx, was.Shared, s.Copy)
	if err == nil && isChanged {
		_, err = f.peers.swap(ctx, was, next) // if it has changed since, the next report follows soon
	}
	return err
}

// runNow makes a schedule of this store due, unless it has the state of the peers already, and adds it if it is missing. It
// reports false if the schedule is running: that run may have an older state.
func (f *follower) runNow(ctx context.Context, name string, kept *schedule.Shared) (done bool, err error) {
	t, err := f.engine.Get(ctx, IDOf(name))
	switch {
	case errors.Is(err, task.ErrNotFound) && (kept == nil || kept.State.Deleted):
		return true, nil
	case errors.Is(err, task.ErrNotFound):
		_, err := f.engine.SubmitReserved(ctx, reserved.Owner{}, requestOf(kept.Named))
		return err == nil, err
	case errors.Is(err, engine.ErrUnreadable):
		return true, nil
	case err != nil:
		return false, fmt.Errorf("read schedule %s: %w", name, err)
	case t.Type != schedule.Type || !t.State.Live():
		return true, nil
	case t.State == task.Processing:
		return false, nil
	}
	if _, s, err := schedule.Decode(t.Payload, t.Checkpoint()); err == nil && kept != nil && s.Copy.Knows(kept, f.engine.Incarnation()) {
		return true, nil
	}
	now := task.Stamp(f.engine.Now())
	switch _, err = f.engine.Edit(ctx, t.Ref(), engine.Edit{At: &now}); {
	case errors.Is(err, engine.ErrStale), errors.Is(err, engine.ErrNotAllowed), errors.Is(err, task.ErrNotFound):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("run schedule %s: %w", name, err)
	}
	return true, nil
}

// rest waits for a time. It reports false if ctx has ended.
func rest(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}
