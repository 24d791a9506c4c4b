package client

import (
	"context"
	"fmt"
	"iter"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

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

// Event is a change of a task, a gap, or that nodes do not answer: exactly one of Task, Gap and Silent is set.
type Event struct {
	Task *Task // after the change, without payload, result and checkpoint
	At   time.Time

	// FromStore says that the task was found in the store after a gap, and is in its state since At. Other changes may be
	// missing, and it may come again.
	FromStore bool

	Gap *EventGap

	// Silent are the nodes that do not answer: their changes come later, and may be later than those of other nodes that depend on
	// them.
	Silent []SilentNode

	// Cursor is where to go on after the event. Events between a gap and the end of what the store had since have one from before
	// the gap.
	Cursor string
}

// EventGap says that changes may be missing.
type EventGap struct {
	From, Until time.Time // the first that is missing may be as old as From
	Text        string    // to be read, not parsed
}

// Events returns changes of tasks as the nodes that share the store make them, until the loop or ctx ends: those of one node in their order. A
// node that is gone is replaced by another one, which goes on at the cursor. The error that ends the events is not one of a node that
// does not answer.
func (c *Client) Events(ctx context.Context, r EventsRequest) iter.Seq2[*Event, error] {
	return func(yield func(*Event, error) bool) {
		req := &taskenginev1.EventsRequest{Where: r.Where, Types: r.Types, Cursor: r.Cursor, CatchUp: r.CatchUp, Timeout: durationpb.New(streamPoll)}
		follow(ctx, c, taskenginev1connect.TaskServiceEventsProcedure, req, passEvents, yield)
	}
}

// passEvents passes on the events of a response, and moves the cursor of req behind each.
func passEvents(req *taskenginev1.EventsRequest, res *taskenginev1.EventsResponse, yield func(*Event, error) bool) error {
	if silent := all(res.GetSilent(), silentOf); silent != nil {
		if !yield(&Event{Silent: silent, Cursor: req.GetCursor()}, nil) {
			return errStopped
		}
	}
	if g := res.GetGap(); g != nil {
		e := &Event{Gap: &EventGap{From: timeOf(g.GetFrom()), Until: timeOf(g.GetUntil()), Text: g.GetText()}, Cursor: req.GetCursor()}
		if !yield(e, nil) {
			return errStopped
		}
	}
	for _, m := range res.GetEvents() {
		t, err := decodeTask(m.GetTask())
		if err != nil {
			return badResponse{fmt.Errorf("an event: %w", err)}
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
