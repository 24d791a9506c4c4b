package task

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Handler does the work of tasks. Handle returns the result of the task, or an error that says what
// to do next:
//
//   - nil finishes the task with the result;
//   - [Snooze] and [Again] have the handler called again later, and this attempt does not count;
//   - [Ended] says that the handler has ended the attempt itself, by a function of the database;
//   - [Permanent] makes the task an [Error] at once, and [EndAs] has it end as [Failed] or [Cancelled];
//   - an error that wraps a [DocumentConflict] has the handler called again soon, and this attempt does not count;
//   - after any other error the task is retried as the retry policy of its type says; [RetryIn],
//     [RetryAfter] and [WithClass] change that;
//   - [InDoubt] is retried in the same way, unless the delivery of the type is at_most_once.
//
// The context ends when the attempt runs out of time, when the task is cancelled, or when the node
// stops. The handler must return soon after. The handler owns the task. t.Ref() is its fencing
// token: it names this attempt and no other. Handle is called from many goroutines concurrently. A
// panic counts as an error that is [InDoubt].
type Handler interface {
	Handle(ctx context.Context, t *Task) (result []byte, err error)
}

// HandlerFunc is a function that is a [Handler].
type HandlerFunc func(ctx context.Context, t *Task) ([]byte, error)

// Handle calls f.
func (f HandlerFunc) Handle(ctx context.Context, t *Task) ([]byte, error) { return f(ctx, t) }

// ResultTooLarge returns the error of an attempt that did the work of a task of type typ, but whose
// result has n bytes, while max_result of the type allows most. The error is permanent, because
// another attempt would do the work once more. Its class is "result_too_large".
func ResultTooLarge(typ string, n, most int) error {
	return Permanent(WithClass("result_too_large", fmt.Errorf(
		"the handler succeeded, but its result has %d bytes and max_result of type %q allows %d: the result is lost; raise max_result of the type, or have the handler return less",
		n, typ, most)))
}

// ErrCrashed is wrapped by the errors of attempts during which the handler process died.
var ErrCrashed = errors.New("the handler's process died")

// ErrUnavailable is wrapped by the errors of handlers that could not take the task, for instance
// while their process restarts. Such an attempt does not count.
var ErrUnavailable = errors.New("the handler is not available")

// ErrInterrupted is wrapped by the errors of attempts that had begun and were ended for a reason
// that is not in their task, for instance because the process was stopped due to another task. Such
// an attempt does not count either, but the task may have taken effect.
var ErrInterrupted = errors.New("the attempt was interrupted")

// verdict is an error with the request of a handler.
type verdict struct {
	error
	wish  wish
	delay time.Duration
	at    time.Time
	class string
	least bool // delay is a minimum, not an exact delay
	doubt bool
	next  State          // with wishGiveUp: that of EndAs
	rerun *Rerun         // with wishAgain
	await []string       // with wishAgain: the names of WaitFor
	waits []ChildrenWait // with wishAgain: of WaitForChildren
}

type wish uint8

const (
	wishRetry wish = iota
	wishGiveUp
	wishSnooze
	wishAgain
	wishEnded
)

func (v *verdict) Unwrap() error { return v.error }

// Permanent marks err as an error that a retry cannot mend. A nil err stays nil.
func Permanent(err error) error {
	return mark(err, func(v *verdict) { v.wish, v.next = wishGiveUp, 0 })
}

// EndAs marks err as the end of the task: it becomes [Failed] or [Cancelled], whatever the retry policy of its type says, and no
// person is asked to decide about it. It is for a handler that knows that nobody can mend the error. It panics if s is another state.
// A nil err stays nil.
func EndAs(s State, err error) error {
	if s != Failed && s != Cancelled {
		panic(fmt.Sprintf("task: a handler cannot have a task end as %v", s))
	}
	return mark(err, func(v *verdict) { v.wish, v.next = wishGiveUp, s })
}

// RetryIn asks for the next attempt after d instead of the delay of the retry policy: after 10 ms at least, which
// doubles with each attempt in a row that follows another at once, up to a minute. The policy still
// limits the number of attempts. A nil err stays nil.
func RetryIn(d time.Duration, err error) error {
	return mark(err, func(v *verdict) { v.wish, v.delay, v.least = wishRetry, max(0, d), false })
}

// RetryAfter asks for the next attempt after d, or after the delay of the retry policy if that is
// longer. The policy still limits the number of attempts. A nil err stays nil.
func RetryAfter(d time.Duration, err error) error {
	return mark(err, func(v *verdict) { v.wish, v.delay, v.least = wishRetry, max(0, d), true })
}

// InDoubt marks err as an error after which it is unknown whether the work was done, for instance
// because a request was sent and no answer came. Such a task is retried like any other, unless the
// delivery of its type is at_most_once: then it becomes an [Error]. A nil err stays nil.
func InDoubt(err error) error { return mark(err, func(v *verdict) { v.doubt = true }) }

// WithClass sets the class of err, which selects a rule of the retry policy. A nil err stays nil.
func WithClass(class string, err error) error {
	return mark(err, func(v *verdict) { v.class = class })
}

// Snooze asks for another call after d; this attempt does not count. The delay is at least 10 ms. If
// a task asks for very short delays many times in a row, each delay is twice the one before, up to a
// minute.
func Snooze(d time.Duration) error {
	return &verdict{error: errors.New("snoozed"), wish: wishSnooze, delay: max(0, d)}
}

// Ended says that the handler has ended the attempt itself, in a transaction that has committed, by a
// function of the database that has the tasks. The engine reads the row to learn the new state of the task,
// and writes nothing. If the attempt has not ended, for instance because the transaction was rolled
// back, it has failed with an error that is [InDoubt].
//
// The row decides in any case: what a handler answers after such a transaction has no effect. With this
// answer the engine looks at once, and does not try to save the end of the attempt. It is not for
// transactions that the engine knows of, such as that of FinishTx.
func Ended() error {
	return &verdict{error: errNotEnded, wish: wishEnded, delay: -1}
}

// errNotEnded is the error of a handler that returned [Ended] and had not ended the attempt.
var errNotEnded = errors.New("the handler says that it has ended its attempt in a transaction, and the attempt has not ended: the transaction did not commit")

func mark(err error, set func(*verdict)) error {
	if err == nil {
		return nil
	}
	v := &verdict{error: err, delay: -1}
	var inner *verdict
	if errors.As(err, &inner) {
		v.wish, v.delay, v.at, v.class, v.next = inner.wish, inner.delay, inner.at, inner.class, inner.next
		v.least, v.doubt, v.rerun, v.await, v.waits = inner.least, inner.doubt, inner.rerun, inner.await, inner.waits
	}
	set(v)
	return v
}

// Verdict is the result of an attempt, in the form that the engine decides by and that plugins send
// over the wire.
type Verdict struct {
	Outcome Outcome
	Result  []byte        // if Completed
	Error   string        // otherwise
	Class   string        // if Errored: the kind of error, or ""
	GiveUp  bool          // if Errored: do not retry
	Delay   time.Duration // if Errored: before the next attempt, negative for the policy's; if Snoozed: how long
	AtLeast bool          // if Errored: the policy's delay is taken instead of Delay if it is longer
	InDoubt bool          // if Errored: whether the work was done is unknown
	Ended   bool          // if Errored: the handler says that it has ended the attempt itself; it has failed if that is not so
	Again   time.Time     // if Completed: when to run again; zero if not, or if the wait for a signal has no end
	Await   []string      // if Completed: the names of the signals that the task waits for until Again; nil if it does not
	Rerun   *Rerun        // if Completed: the state of a task that runs again, and the added tasks; nil if there is nothing of it

	// Children are, with an Await that has [AwaitsChildren], the children that the task waits for.
	Children []ChildrenWait

	// Pause is for how long a task that was HandedBack is left alone, if that is longer than usual, but not
	// after it expires. Reencoded has the contents of a task as they are stored from now on if it has not ended; nil
	// if that stays as it is. The engine sets them. Handlers and plugins do not.
	Pause     time.Duration
	Reencoded *Reencoded

	// Next is the state that a function of the program, or the handler by [EndAs], has chosen after an attempt that failed, whatever
	// the policy of the type says of the number of attempts, delays and classes: Waiting for Delay,
	// Error, Failed or Cancelled. Zero if none has. Plugins do not set it.
	Next State
}

// RunsAgain reports whether the task is not done after an attempt that Completed.
func (v *Verdict) RunsAgain() bool { return !v.Again.IsZero() || v.Await != nil }

// Reencoded is the payload, the checkpoint and the data of signals of a task, encoded for the store. What is nil or missing
// stays as it is.
type Reencoded struct {
	Payload, Checkpoint *[]byte
	Signals             map[ID][]byte // by the ID of the signal
}

// Add has c store what r has, unless c stores something else instead or the task has ended then. completes says
// whether c ends an attempt that has done its work.
func (r *Reencoded) Add(c *Change, completes bool) {
	if r == nil || c.To != Waiting && c.To != Submitted && c.To != Error {
		return
	}
	if c.Payload == nil {
		c.Payload = r.Payload
	}
	if c.Checkpoint == nil && !completes {
		c.Checkpoint = r.Checkpoint
	}
	c.Reencoded = r.Signals
}

// VerdictOf returns the verdict for what a handler returned.
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
			out.GiveUp, out.Next = true, v.next
		case wishRetry:
			out.Delay, out.AtLeast = v.delay, v.least
		case wishSnooze:
			return Verdict{Outcome: Snoozed, Delay: v.delay}
		case wishEnded:
			out.Ended, out.InDoubt = true, true
		case wishAgain:
			return Verdict{Outcome: Completed, Result: result, Again: v.at, Rerun: v.rerun, Await: v.await, Children: v.waits}
		}
	}
	switch {
	case v == nil && isConflict(err):
		return Verdict{Outcome: Snoozed, Class: ClassDocumentConflict, Error: err.Error()}
	case errors.Is(err, ErrCrashed):
		out.Outcome = Crashed
	case errors.Is(err, ErrInterrupted):
		out.Outcome = Interrupted
	case errors.Is(err, ErrUnavailable):
		out.Outcome = HandedBack
	}
	return out
}

func isConflict(err error) bool {
	var conflict *DocumentConflict
	return errors.As(err, &conflict)
}
