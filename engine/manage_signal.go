package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/taskengine/taskengine/codec"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

// Signal is a message to one task.
type Signal = task.SignalRequest

// SignalOutcome says what became of a signal.
type SignalOutcome uint8

// The values of SignalOutcome.
const (
	SignalWoke      SignalOutcome = iota + 1 // the task waited for it, and is ready now
	SignalKept                               // the task keeps it
	SignalRepeated                           // the task has got it before
	SignalDropped                            // the task does not wait for it
	SignalNoRoom                             // the task does not wait for it, and cannot keep another one
	SignalTaskEnded                          // the task has ended
)

var signalOutcomes = [...]string{"", "woke", "kept", "repeated", "dropped", "no_room", "ended"}

// String returns the name of the outcome.
func (o SignalOutcome) String() string { return signalOutcomes[min(int(o), len(signalOutcomes)-1)] }

var errNoAddressee = errors.New("a signal is sent to the id of a task, or to its type and its key")

// signalTries is how often a signal is sent again because the task of its key is another one, or has changed meanwhile.
const signalTries = 20

// Signal sends a signal to a task. It returns when the outcome is durable, with the task after it. Of the signals, the
// time until which it waits, and the changes of users, exactly one ends a wait of a task, see [task.WaitFor]. A signal to a
// task that runs does not change the version of that. An error that is neither [ErrInvalid] nor [task.ErrNotFound] leaves
// open whether the task has the signal: a caller that may send it again gives it an ID.
func (e *Engine) Signal(ctx context.Context, s Signal) (SignalOutcome, *task.Task, error) {
	if err := checkNames([]string{s.Name}); err != nil {
		return 0, nil, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	if s.ID.IsZero() {
		s.ID = e.catalog.ids.Next(e.Now())
	}
	for range signalTries {
		outcome, t, err := e.signal(ctx, &s)
		if err != nil {
			return 0, nil, err
		}
		if outcome != 0 {
			return outcome, e.shown(t), nil
		}
	}
	return 0, nil, fmt.Errorf("engine: signal %q: %w, %d times in a row", s.Name, ErrStale, signalTries)
}

// signal tries to send a signal. The outcome is zero if the task has changed meanwhile.
func (e *Engine) signal(ctx context.Context, s *Signal) (SignalOutcome, *task.Task, error) {
	t, err := e.addressee(ctx, s)
	if err != nil {
		return 0, nil, err
	}
	if task.IsReservedType(t.Type) {
		return 0, nil, fmt.Errorf("%w: tasks of type %s belong to the engine and take no signals", ErrInvalid, t.Type)
	}
	if most := e.catalog.infoOf(t.Type).maxPayload; len(s.Data) > most {
		return 0, nil, fmt.Errorf("%w: the data of the signal has %d bytes, of %d allowed by max_payload of type %s", ErrInvalid, len(s.Data), most, t.Type)
	}
	data := s.Data
	if len(data) > 0 {
		if data, err = e.contents.encode(t.Type, codec.Signal, slices.Clone(data)); err != nil {
			return 0, nil, fmt.Errorf("engine: signal %v: %w", t.ID, err)
		}
	}
	c := task.Change{
		Ref: task.Ref{ID: t.ID}, At: e.Now(), OrderingKey: t.OrderingKey,
		Signal: &task.Delivery{Signal: task.Signal{ID: s.ID, Name: s.Name, Data: data}, Keep: s.Keep},
	}
	after, err := e.swap(ctx, t, c)
	switch {
	case err != nil:
		return 0, nil, fmt.Errorf("engine: signal %v: %w", t.ID, err)
	case after == nil:
		return e.undelivered(ctx, t, c, s.To.IsZero())
	}
	return deliveredTo(after, s.ID), after, nil
}

// deliveredTo returns the outcome of a signal that changed a row.
func deliveredTo(t *task.Task, id task.ID) SignalOutcome {
	if t.Woken().By == task.BySignal && t.Woken().Signal.ID == id {
		return SignalWoke
	}
	return SignalKept
}

// addressee returns the task that a signal is for.
func (e *Engine) addressee(ctx context.Context, s *Signal) (*task.Task, error) {
	if !s.To.IsZero() {
		t, err := e.store.Get(ctx, s.To)
		if err == nil && isOtherType(s, t) {
			return nil, fmt.Errorf("task %v is of another type than %s: %w", s.To, s.Type, task.ErrNotFound)
		}
		return t, err
	}
	if s.Type == "" || s.Key == "" {
		return nil, fmt.Errorf("%w: %w", ErrInvalid, errNoAddressee)
	}
	if e.abilities.divided != nil { // a shard that is being moved is an error here, and not in FindKey
		shard, _ := task.BoundShard(s.Type, s.Key, s.OrderingKey)
		found, err := e.store.Existing(ctx, &task.Task{ID: e.catalog.ids.NextIn(e.Now(), shard), Type: s.Type, Key: s.Key, OrderingKey: s.OrderingKey})
		if err != nil {
			return nil, err
		}
		if !found[0].IsZero() {
			return e.store.Get(ctx, found[0])
		}
	}
	finder, ok := e.store.(storage.KeyFinder)
	if !ok {
		return nil, ErrUnsupported
	}
	t, err := finder.FindKey(ctx, s.Type, s.OrderingKey, s.Key)
	if err != nil {
		return nil, unsupported(err)
	}
	return t, nil
}

// isOtherType reports whether t is of another type than the sender of a signal to its id has named.
func isOtherType(s *Signal, t *task.Task) bool { return s.Type != "" && t.Type != s.Type }

// undelivered returns why the change c, which delivers a signal, was not made: from a row that is durable. If the task was
// found by its key and exists no more, another one may have the key: then the outcome is zero.
func (e *Engine) undelivered(ctx context.Context, t *task.Task, c task.Change, byKey bool) (SignalOutcome, *task.Task, error) {
	now, err := e.store.Get(ctx, t.ID)
	switch {
	case errors.Is(err, task.ErrNotFound) && byKey:
		return 0, nil, nil
	case err != nil:
		return 0, nil, fmt.Errorf("engine: signal %v: %w", t.ID, err)
	}
	outcome := SignalDropped
	switch {
	case now.State == task.Done || now.State == task.Failed || now.State == task.Cancelled:
		outcome = SignalTaskEnded
	case now.Signals.Has(c.Signal.ID):
		outcome = SignalRepeated
	case c.Apply(now.Clone()):
		return 0, nil, nil
	case c.Signal.Keep:
		outcome = SignalNoRoom
	}
	// The row may not be durable yet. A later write that changes nothing returns when it is.
	after, err := e.swap(ctx, now, c)
	switch {
	case err != nil:
		return 0, nil, fmt.Errorf("engine: signal %v: %w", t.ID, err)
	case after != nil:
		return deliveredTo(after, c.Signal.ID), after, nil
	}
	return outcome, now, nil
}

// checkNames returns an error if a task cannot wait for signals of these names. Nil is no wait.
func checkNames(names []string) error {
	switch {
	case names == nil:
		return nil
	case len(names) == 0:
		return errors.New("no name of a signal is given")
	case len(names) > task.MaxAwaited:
		return fmt.Errorf("%d names of signals are given, of %d allowed", len(names), task.MaxAwaited)
	}
	for _, name := range names {
		if name == "" || len(name) > task.MaxSignalName || !printable(name) {
			return fmt.Errorf("%.40q is not the name of a signal, which is 1 to %d bytes of printable UTF-8", name, task.MaxSignalName)
		}
		if strings.HasPrefix(name, task.ReservedTypes) {
			return fmt.Errorf("%q is not the name of a signal: names that begin with %s belong to the engine", name, task.ReservedTypes)
		}
	}
	return nil
}
