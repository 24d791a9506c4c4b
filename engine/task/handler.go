package task

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Handler does the work of tasks. Handle returns the task's result, or an error that
// says what to do next:
//
//   - nil finishes the task with the result;
//   - [Snooze] and [Again] call it again later, without counting this attempt;
//   - [Permanent] gives up at once: the task goes to [Error];
//   - any other error is retried as the type's retry policy says, and [RetryIn],
//     [RetryAfter] and [WithClass] steer that;
//   - [InDoubt] is retried likewise, but not if the type's delivery is at_most_once.
//
// The context ends when the attempt runs out of time, is cancelled, or its node stops;
// a handler must return soon after. The task belongs to the handler, and t.Ref() is its
// fencing token: it names this attempt and no other. Handle is called from many
// goroutines at once. A panic counts as an error that is [InDoubt].
type Handler interface {
	Handle(ctx context.Context, t *Task) (result []byte, err error)
}

// HandlerFunc makes a function a [Handler].
type HandlerFunc func(ctx context.Context, t *Task) ([]byte, error)

// Handle calls f.
func (f HandlerFunc) Handle(ctx context.Context, t *Task) ([]byte, error) { return f(ctx, t) }

// ResultTooLarge returns the error of an attempt that did the work of a task of type typ, but
// whose result has n bytes, of which the type's max_result allows most. It is permanent, and
// of the class "result_too_large": another attempt would do the work once more.
func ResultTooLarge(typ string, n, most int) error {
	return Permanent(WithClass("result_too_large", fmt.Errorf(
		"the handler succeeded, but its result has %d bytes and max_result of type %q allows %d: the result is lost; raise max_result of the type, or have the handler return less",
		n, typ, most)))
}

// ErrCrashed wraps the errors of attempts whose handler process died under them.
var ErrCrashed = errors.New("the handler's process died")

// ErrUnavailable wraps the errors of handlers that could not take the task at all,
// while their process restarts for instance. Such an attempt is not counted.
var ErrUnavailable = errors.New("the handler is not available")

// ErrInterrupted wraps the errors of attempts that had begun and were ended through no
// fault of their task: its process had to be stopped because of another, for instance.
// Such an attempt is not counted either, but the task may have taken effect.
var ErrInterrupted = errors.New("the attempt was interrupted")

// verdict is an error that carries the handler's wish.
type verdict struct {
	error
	wish  wish
	delay time.Duration
	at    time.Time
	class string
	least bool // delay is the shortest, and not the exact, one
	doubt bool
}

type wish uint8

const (
	wishRetry wish = iota
	wishGiveUp
	wishSnooze
	wishAgain
)

func (v *verdict) Unwrap() error { return v.error }

// Permanent marks err as one that no retry can mend. A nil err stays nil.
func Permanent(err error) error { return mark(err, func(v *verdict) { v.wish = wishGiveUp }) }

// RetryIn asks for the next attempt after d instead of the policy's delay; the policy
// still says how many attempts there are. A nil err stays nil.
func RetryIn(d time.Duration, err error) error {
	return mark(err, func(v *verdict) { v.wish, v.delay, v.least = wishRetry, max(0, d), false })
}

// RetryAfter asks for the next attempt after d, or after the policy's delay if that is
// longer; the policy still says how many attempts there are. A nil err stays nil.
func RetryAfter(d time.Duration, err error) error {
	return mark(err, func(v *verdict) { v.wish, v.delay, v.least = wishRetry, max(0, d), true })
}

// InDoubt marks err as one after which it is unknown whether the work was done: a request
// was sent and no answer came, for instance. Such a task is retried like any other, unless
// its type's delivery is at_most_once: then it becomes an error that a person decides
// about. A nil err stays nil.
func InDoubt(err error) error { return mark(err, func(v *verdict) { v.doubt = true }) }

// WithClass names the kind of err, for the retry policy's rules per class. A nil err
// stays nil.
func WithClass(class string, err error) error {
	return mark(err, func(v *verdict) { v.class = class })
}

// Snooze asks to be called again after d without counting this attempt. The task rests for 10 ms
// at least; if it asks for hardly anything again and again it rests longer each time, up to a
// minute.
func Snooze(d time.Duration) error {
	return &verdict{error: errors.New("snoozed"), wish: wishSnooze, delay: max(0, d)}
}

// Again says that the work is done for now and due again at the given time: the
// attempts start anew. It is what recurring tasks return. The task has the
// result that is returned with it until the next run completes. A time that is past, or hardly to come, is treated
// as [Snooze] treats a short delay, unless the times catch up with a schedule: each at least a
// second closer to the present than the one before.
func Again(at time.Time) error {
	return &verdict{error: errors.New("runs again"), wish: wishAgain, at: at}
}

func mark(err error, set func(*verdict)) error {
	if err == nil {
		return nil
	}
	v := &verdict{error: err, delay: -1}
	var inner *verdict
	if errors.As(err, &inner) {
		v.wish, v.delay, v.at, v.class = inner.wish, inner.delay, inner.at, inner.class
		v.least, v.doubt = inner.least, inner.doubt
	}
	set(v)
	return v
}

// Verdict is what came of an attempt, in the form the engine decides by and plugins
// send over the wire.
type Verdict struct {
	Outcome Outcome
	Result  []byte        // if Completed
	Error   string        // otherwise
	Class   string        // if Errored: the kind of error, or ""
	GiveUp  bool          // if Errored: do not retry
	Delay   time.Duration // if Errored: before the next attempt, negative for the policy's; if Snoozed: how long
	AtLeast bool          // if Errored: the policy's delay is taken instead of Delay if it is longer
	InDoubt bool          // if Errored: whether the work was done is unknown
	Again   time.Time     // if Completed: when to run again; zero is never
}

// VerdictOf reads what a handler returned.
func VerdictOf(result []byte, err error) Verdict {
	if err == nil {
		return Verdict{Outcome: Completed, Result: result}
	}
	out := Verdict{Outcome: Errored, Error: err.Error(), Delay: -1}
	var v *verdict
	if errors.As(err, &v) {
		out.Class, out.InDoubt = v.class, v.doubt
		switch v.wish {
		case wishGiveUp:
			out.GiveUp = true
		case wishRetry:
			out.Delay, out.AtLeast = v.delay, v.least
		case wishSnooze:
			return Verdict{Outcome: Snoozed, Delay: v.delay}
		case wishAgain:
			return Verdict{Outcome: Completed, Result: result, Again: v.at}
		}
	}
	switch {
	case errors.Is(err, ErrCrashed):
		out.Outcome = Crashed
	case errors.Is(err, ErrInterrupted):
		out.Outcome = Interrupted
	case errors.Is(err, ErrUnavailable):
		out.Outcome = HandedBack
	}
	return out
}
