package dispatch

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/taskengine/taskengine/internal/wakeup"
	"github.com/taskengine/taskengine/internal/workpool"
	"github.com/taskengine/taskengine/plugins/internal/calls"
	"github.com/taskengine/taskengine/plugins/internal/wire"
	"github.com/taskengine/taskengine/task"
)

// Dispatcher is the [Core] of one host with its waits: for answers, for the engine and for streams. The host sets the
// exported fields and changes none of them later.
type Dispatcher[O any] struct {
	Core[O]                   // guarded by Mu
	Mu           *sync.Mutex  // the host's
	Log          *slog.Logger // of events that programs cause
	NotDelivered error        // why a call is handed back that was not sent

	// Enqueue pushes a call, or returns why no session will take it.
	Enqueue func(*Call[O]) error

	// Left is called when a call has left its queue because its context has ended, and returns its error. Mu is held.
	Left func(cause error) error

	// Overdue ends a call that has not ended within the grace of its session, if it has not ended meanwhile.
	Overdue func(*Call[O])

	// Changed is called when the room of sessions may have changed. Mu is held.
	Changed func()
}

// Handle runs t in a session. It waits for room until ctx ends. Progress, checkpoints and log lines go to the
// [task.Reporter] of ctx.
func (d *Dispatcher[O]) Handle(ctx context.Context, t *task.Task) ([]byte, error) {
	if ctx.Err() != nil {
		return nil, calls.Unavailable(context.Cause(ctx))
	}
	c, err := newCall[O](ctx, t)
	if err != nil {
		return nil, err
	}
	if err := d.Enqueue(c); err != nil {
		return nil, calls.Unavailable(err)
	}
	select {
	case a := <-c.Done:
		return a.Result, a.Err
	case <-ctx.Done():
	}
	wait, err := d.cancel(c, context.Cause(ctx))
	if err != nil {
		return nil, err
	}
	grace := time.NewTimer(wait)
	defer grace.Stop()
	select {
	case a := <-c.Done:
		return a.Result, a.Err
	case <-grace.C:
	}
	d.Overdue(c)
	a := <-c.Done
	return a.Result, a.Err
}

// cancel asks for the end of c after the end of its context, and returns how long to wait for that. If no session has taken
// c, it returns the error to answer with.
func (d *Dispatcher[O]) cancel(c *Call[O], cause error) (wait time.Duration, err error) {
	d.Mu.Lock()
	defer d.Mu.Unlock()
	if d.Core.Cancel(c, calls.CancelFor(cause)) {
		return 0, calls.Unavailable(d.Left(cause))
	}
	if c.session == nil { // c is answered
		return 0, nil
	}
	return c.session.Grace, nil
}

// Fill fills frame with the messages that are to be sent to s, as [Core.Fill] does. Mu must be held.
func (d *Dispatcher[O]) Fill(s *Session[O], frame *wire.ToHandler) Filled {
	return d.Core.Fill(s, frame, (*Call[O]).begin)
}

// Write sends the frames that fill returns to s, in as few as possible, until ctx ends, a frame cannot be sent, or fill
// returns Finished: then it returns true. Fill is called without Mu.
func (d *Dispatcher[O]) Write(ctx context.Context, s *Session[O], wake wakeup.Signal, fill func(*wire.ToHandler) Filled, send func(*wire.ToHandler) error) (finished bool) {
	frame := &wire.ToHandler{Runs: make([]*wire.Run, 0, wire.FrameMessages)}
	waiting := func() int {
		d.Mu.Lock()
		defer d.Mu.Unlock()
		return s.queue.n
	}
	for {
		workpool.Gather(waiting)
		switch fill(frame) {
		case Nothing:
			select {
			case <-wake.C():
			case <-ctx.Done():
				return false
			}
		case Finished:
			return true
		case Something:
			if err := send(frame); err != nil {
				if !errors.Is(err, wire.ErrMaybeSent) {
					d.handBack(s, frame.Runs)
				}
				return false
			}
		}
	}
}

// handBack hands the runs of a frame back that was not sent to s.
func (d *Dispatcher[O]) handBack(s *Session[O], runs []*wire.Run) {
	d.Mu.Lock()
	defer d.Mu.Unlock()
	d.Undelivered(s, runs, d.NotDelivered)
	d.Changed()
}

// Receive takes a frame from s that has arrived now, and forwards the reports in it. It appends the call of each finish to
// ended, nil for a finish of a run that is not running. The caller answers them by Answer. Mu must be held.
func (d *Dispatcher[O]) Receive(s *Session[O], frame *wire.FromHandler, now time.Time, ended []*Call[O]) []*Call[O] {
	ended, reporting := d.Core.Receive(s, frame, now, ended)
	for _, c := range reporting {
		go d.forward(c)
	}
	return ended
}

// Answer answers the calls that Receive has returned, each with the answer in its finish. Mu must not be held.
func (d *Dispatcher[O]) Answer(ended []*Call[O], finishes []*wire.Finish, answerOf func(*wire.Finish) calls.Answer) {
	for i, c := range ended {
		switch {
		case c == nil:
		case c.reports == nil:
			c.Done <- answerOf(finishes[i])
		default:
			a := answerOf(finishes[i])
			d.Mu.Lock()
			c.deliver(a)
			d.Mu.Unlock()
		}
	}
}

// CallOf returns the call of a run of s, nil if s does not run it.
func (d *Dispatcher[O]) CallOf(s *Session[O], run uint64) *Call[O] {
	d.Mu.Lock()
	defer d.Mu.Unlock()
	return s.running[run]
}

// forward forwards the reports of c to its reporter until there are none.
func (d *Dispatcher[O]) forward(c *Call[O]) {
	for {
		d.Mu.Lock()
		next, more := d.NextReports(c)
		d.Mu.Unlock()
		if !more {
			return
		}
		if next.Progress != nil {
			c.Reporter.Progress(*next.Progress)
		}
		if next.Checkpoint != nil {
			d.keep(c, next)
		}
		for _, k := range next.Checks {
			answer := calls.Check(c.Reporter, k.Check, &k.Rights)
			d.Mu.Lock()
			d.Checked(k, answer)
			d.Mu.Unlock()
		}
		for _, k := range next.Reads {
			answer := calls.Read(c.Reporter, k.ReadDocument, &k.Rights)
			d.Mu.Lock()
			d.Read(k, answer)
			d.Mu.Unlock()
		}
	}
}

// keep forwards a checkpoint of c, and answers it.
func (d *Dispatcher[O]) keep(c *Call[O], next Reports[O]) {
	why := ""
	if err := c.Reporter.Checkpoint(next.Checkpoint); err != nil {
		d.Log.Warn("a checkpoint is not kept", "task_id", c.ID().String(), "error", err)
		why = err.Error()
		why = strings.ToValidUTF8(why[:min(len(why), wire.MaxErrorBytes)], "\uFFFD")
	}
	d.Mu.Lock()
	d.Stored(c, next, why)
	d.Mu.Unlock()
}
