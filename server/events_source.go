package server

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/engine"
	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
	"github.com/taskengine/taskengine/server/proto/taskengine/v1/taskenginev1connect"
	"github.com/taskengine/taskengine/task"
)

const (
	cursorBreak = "," // between the cursors of nodes

	eventsPoll  = 5 * time.Second // that a node is asked for its events
	eventsRetry = time.Second     // after which a node is asked again that did not answer
)

// receiveEvents passes on the responses of a node from a cursor on, "" for the present, until they end.
type receiveEvents func(ctx context.Context, of eventQuery, cursor string, send func(*taskenginev1.EventsResponse) error) error

// receive receives the events of a node until ctx ends. If it does not answer at first, it begins at the cursor again.
func (m *eventMerger) receive(ctx context.Context, s *eventSource, cursor, again string, receive receiveEvents) {
	for ctx.Err() == nil {
		err := receive(ctx, m.of, cursor, func(res *taskenginev1.EventsResponse) error {
			// The stream may use the message again.
			kept := &taskenginev1.EventsResponse{Gap: res.GetGap(), Events: res.GetEvents(), Cursor: res.GetCursor()}
			cursor = kept.GetCursor()
			if !m.deliver(ctx, receivedEvents{of: s, res: kept}) {
				return context.Cause(ctx)
			}
			select {
			case <-s.next:
				return nil
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		})
		if err == nil || ctx.Err() != nil {
			continue
		}
		if cursor == "" {
			cursor = again
		}
		m.deliver(ctx, receivedEvents{of: s, err: err})
		select {
		case <-time.After(eventsRetry):
		case <-ctx.Done():
		}
	}
}

// deliver passes a response to the goroutine of the merger.
func (m *eventMerger) deliver(ctx context.Context, r receivedEvents) bool {
	select {
	case m.received <- r:
		return true
	case <-ctx.Done():
		return false
	}
}

// problemOf says why a node does not answer.
func (m *eventMerger) problemOf(id task.ID, err error) *taskenginev1.SilentNode {
	member, ok := m.api.member(id)
	if !ok {
		member.Incarnation = id
	}
	return silentOf(&member, err)
}

// cursorOf reads a cursor of the events of a node. The number that a node counts by outlives its incarnation, and the cursor has that by which
// others know the node.
func (s *eventSource) cursorOf(text string) engine.EventCursor {
	c, err := engine.ParseEventCursor(text)
	if err != nil {
		return s.at // of a version that has other ones: its events come again
	}
	c.Feed = s.id
	return c
}

// ownEvents passes on the events of this node.
func (a *API) ownEvents(ctx context.Context, of eventQuery, cursor string, send func(*taskenginev1.EventsResponse) error) error {
	at, err := engine.ParseEventCursor(cursor)
	if err != nil {
		return err
	}
	of.catchUp = false
	s := &eventSender{engine: a.engine, of: of, at: at, emit: send}
	if err := s.first(ctx); err != nil {
		return err
	}
	for ctx.Err() == nil {
		until, cancel := context.WithTimeout(ctx, eventsPoll)
		err := s.next(ctx, until)
		cancel()
		if err != nil {
			return err
		}
	}
	return context.Cause(ctx)
}

var errLeft = errors.New("it has left the cluster")

// eventsOf passes on the events of another node.
func (a *API) eventsOf(id task.ID) receiveEvents {
	return func(ctx context.Context, of eventQuery, cursor string, send func(*taskenginev1.EventsResponse) error) error {
		node, ok := a.member(id)
		if !ok {
			return errLeft
		}
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		patience := a.peers.Timeout()
		silence := time.AfterFunc(patience, func() { cancel(late(patience)) })
		defer silence.Stop()
		return a.peers.Use(ctx, &node, func(c taskenginev1connect.TaskServiceClient) error {
			stream, err := c.Events(ctx, &taskenginev1.EventsRequest{Where: of.text, Types: of.types, Cursor: cursor, Timeout: durationpb.New(eventsPoll)})
			if err != nil {
				return err
			}
			defer stream.Close()
			for stream.Receive() {
				silence.Stop()
				if err := send(stream.Msg()); err != nil {
					return err
				}
				silence.Reset(eventsPoll + patience)
			}
			return stream.Err()
		})
	}
}

// late returns the error for a node that does not answer in time.
func late(timeout time.Duration) error { return fmt.Errorf("it did not answer within %v", timeout) }

// member returns the node with an id.
func (a *API) member(id task.ID) (coord.Member, bool) {
	all := a.engine.Members()
	i := slices.IndexFunc(all, func(m coord.Member) bool { return m.Incarnation == id })
	if i < 0 {
		return coord.Member{}, false
	}
	return all[i], true
}

// eventCursors reads a cursor: those of several nodes, a time, or a duration before the present of the cluster, since the clock of the client
// may be wrong. There are none for the present.
func (a *API) eventCursors(text string) (cursors []engine.EventCursor, err error) {
	if d, err := time.ParseDuration(text); err == nil {
		if d < 0 {
			return nil, fmt.Errorf("the duration %s is negative", text)
		}
		return []engine.EventCursor{{At: a.engine.Now().Add(-d)}}, nil
	}
	if text == "" {
		return nil, nil
	}
	for part := range strings.SplitSeq(text, cursorBreak) {
		c, err := engine.ParseEventCursor(part)
		if err != nil {
			return nil, err
		}
		cursors = append(cursors, c)
	}
	return cursors, nil
}
