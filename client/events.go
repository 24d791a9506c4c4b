package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/taskengine/taskengine/internal/wakeup"
	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
	"github.com/taskengine/taskengine/server/proto/taskengine/v1/taskenginev1connect"
)

// EventsRequest selects events.
type EventsRequest struct {
	Where  string   // a filter of the tasks after their change, without terms of payloads and results; empty for all
	Types  []string // empty for all
	Cursor string   // of an earlier event, or a time in RFC 3339; empty for the present
	// CatchUp has the tasks follow a gap that have changed since it began, as the store has them.
	CatchUp bool
}

// Event is a change of a task, or a gap: exactly one of Task and Gap is set.
type Event struct {
	Task *Task // after the change, without payload, result and checkpoint
	At   time.Time

	// FromStore says that the task was found in the store after a gap, and is in its state since At. Other changes may be
	// missing, and it may come again.
	FromStore bool

	Gap *EventGap

	// Cursor is where to go on after the event. Events between a gap and the end of what the store had since have one from before
	// the gap.
	Cursor string
}

// EventGap says that changes may be missing.
type EventGap struct {
	From, Until time.Time // the first that is missing may be as old as From
	Text        string    // to be read, not parsed
}

// eventsPoll is how long the client asks a stream to last, and eventsGrace how much longer a stream may be silent.
const (
	eventsPoll  = 30 * time.Second
	eventsGrace = 15 * time.Second
)

// Events returns changes of tasks as a node makes them, until the loop or ctx ends. A node that is gone is replaced by another one:
// then there is a gap, since a node knows the changes that it has made itself. The error that ends the events is not one of a
// node that does not answer.
func (c *Client) Events(ctx context.Context, r EventsRequest) iter.Seq2[*Event, error] {
	return func(yield func(*Event, error) bool) {
		req := &taskenginev1.EventsRequest{Where: r.Where, Types: r.Types, Cursor: r.Cursor, CatchUp: r.CatchUp, Timeout: durationpb.New(eventsPoll)}
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(c.background, cancel)()
		for pause := firstPause; ; {
			before := req.Cursor
			err := c.eventsOnce(ctx, req, yield)
			switch {
			case errors.Is(err, errStopped):
				return
			case c.background.Err() != nil:
				yield(nil, ErrClosed)
				return
			case ctx.Err() != nil:
				yield(nil, context.Cause(ctx))
				return
			case err == nil:
				continue
			case !mayRepeat(err):
				yield(nil, err)
				return
			}
			if pause = min(2*pause, mostPause); req.Cursor != before {
				pause = firstPause
			}
			_ = wakeup.Sleep(ctx, jittered(pause))
		}
	}
}

var errStopped = errors.New("the loop has ended")

// eventsOnce passes on the events of one stream, and moves the cursor of req.
func (c *Client) eventsOnce(ctx context.Context, req *taskenginev1.EventsRequest, yield func(*Event, error) bool) error {
	n, err := c.nodes.pick(ctx, c.nodes.patienceOf(ctx, 0), false)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	silence := time.AfterFunc(eventsPoll+eventsGrace, cancel)
	defer silence.Stop()
	s, err := n.conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, taskenginev1connect.TaskServiceEventsProcedure)
	if err == nil {
		if err = s.SendMsg(req); err == nil {
			err = s.CloseSend()
		}
	}
	for err == nil {
		res := new(taskenginev1.EventsResponse)
		if err = s.RecvMsg(res); err == nil {
			silence.Stop()
			err = passEvents(req, res, yield)
			silence.Reset(eventsPoll + eventsGrace)
		}
	}
	switch {
	case errors.Is(err, io.EOF):
		return nil
	case errors.Is(err, errStopped), isDecoded(err):
		return err
	}
	if code := status.Code(err); code == codes.Unavailable || code == codes.Canceled {
		c.nodes.leave(n)
		err = status.Error(codes.Unavailable, err.Error()) // the cursor is kept
	}
	return errorOf(n.address, err, nil)
}

// badEvent is an event that cannot be read.
type badEvent struct{ error }

func isDecoded(err error) bool {
	var bad badEvent
	return errors.As(err, &bad)
}

// passEvents passes on the events of a response, and moves the cursor of req behind each.
func passEvents(req *taskenginev1.EventsRequest, res *taskenginev1.EventsResponse, yield func(*Event, error) bool) error {
	if g := res.GetGap(); g != nil {
		e := &Event{Gap: &EventGap{From: timeOf(g.GetFrom()), Until: timeOf(g.GetUntil()), Text: g.GetText()}, Cursor: req.GetCursor()}
		if !yield(e, nil) {
			return errStopped
		}
	}
	for _, m := range res.GetEvents() {
		t, err := decodeTask(m.GetTask())
		if err != nil {
			return badEvent{fmt.Errorf("an event: %w", err)}
		}
		e := &Event{Task: t, At: timeOf(m.GetAt()), FromStore: m.GetFromStore(), Cursor: m.GetCursor()}
		if e.Cursor == "" {
			e.Cursor = res.GetCursor()
		}
		req.Cursor = e.Cursor
		if !yield(e, nil) {
			return errStopped
		}
	}
	req.Cursor = res.GetCursor()
	return nil
}
