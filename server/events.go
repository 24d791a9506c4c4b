package server

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/filter"
	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
	"github.com/taskengine/taskengine/task"
)

// EventsPath is the path of the API with events for HTTP, as server-sent events.
const EventsPath = "/v1/events"

// sseRest is how long a stream of server-sent events is silent at most: proxies end silent connections.
const sseRest = 15 * time.Second

// Events sends changes of tasks.
func (a *API) Events(ctx context.Context, req *taskenginev1.EventsRequest, stream *connect.ServerStream[taskenginev1.EventsResponse]) error {
	return a.events(ctx, req, stream.Send)
}

func (a *API) events(ctx context.Context, req *taskenginev1.EventsRequest, send func(*taskenginev1.EventsResponse) error) error {
	timeout, err := pollOf(req.GetTimeout())
	if err != nil {
		return a.answer(err)
	}
	s, err := a.eventStream(ctx, req, send)
	if err != nil {
		return a.answer(err)
	}
	defer s.close()
	until, cancel := context.WithTimeoutCause(ctx, timeout, errPolled)
	defer cancel()
	for until.Err() == nil {
		if err := s.next(ctx, until); err != nil {
			return a.answer(err)
		}
	}
	if ctx.Err() != nil {
		return a.answer(context.Cause(ctx))
	}
	return nil
}

// eventStream sends events to one client.
type eventStream interface {
	// next sends the next events, or only a newer cursor when until ends.
	next(ctx, until context.Context) error
	close()
}

// eventQuery selects events.
type eventQuery struct {
	where   filter.Filter // with the types
	text    string        // of the filter without the types, for other nodes; its times do not depend on when it is read
	types   []string
	catchUp bool
}

// eventStream returns the stream of a request, which has sent the first response.
func (a *API) eventStream(ctx context.Context, req *taskenginev1.EventsRequest, send func(*taskenginev1.EventsResponse) error) (eventStream, error) {
	of, err := a.eventQuery(ctx, req)
	if err != nil {
		return nil, err
	}
	cursors, err := a.eventCursors(req.GetCursor())
	if err != nil {
		return nil, invalid("cursor: %w", err)
	}
	send = rechecked(a, ctx, send)
	if a.peers != nil && ctx.Value(askedKey{}) == nil {
		return a.newEventMerger(ctx, of, cursors, send)
	}
	s := &eventSender{engine: a.engine, of: of, emit: send}
	switch len(cursors) {
	case 0:
	case 1:
		s.at = cursors[0]
	default: // of a cluster, of which this node is no part any more
		s.at.At = slices.MinFunc(cursors, func(a, b engine.EventCursor) int { return a.At.Compare(b.At) }).At
	}
	return s, s.first(ctx)
}

// eventQuery returns the query of a request, if the caller may make it.
func (a *API) eventQuery(ctx context.Context, req *taskenginev1.EventsRequest) (of eventQuery, err error) {
	rest, err := filterOf(nil, req.GetTypes())
	if err != nil {
		return of, err
	}
	if err := a.permitFilter(ctx, req.GetTypes()); err != nil {
		return of, err
	}
	where, err := filter.Parse(req.GetWhere(), a.engine.Now())
	if err != nil {
		return of, invalid("where: %w", err)
	}
	if !where.OfRows() {
		return of, invalid("where: events have neither the payload nor the result of a task, so the filter of a stream cannot ask for them")
	}
	of = eventQuery{where: where.And(filter.Of(nil, rest.Types, "")), text: where.String(), types: req.GetTypes(), catchUp: req.GetCatchUp()}
	return of, a.permitWhere(ctx, of.where)
}

// eventSender sends the events of this node. It belongs to one goroutine.
type eventSender struct {
	engine *engine.Engine
	of     eventQuery
	at     engine.EventCursor
	emit   func(*taskenginev1.EventsResponse) error
}

// first sends the first response, with the cursor of the present for a client that never gets an event. An engine that has ended sends none: it would
// seem to go on.
func (s *eventSender) first(ctx context.Context) error {
	now, cancel := context.WithCancel(ctx)
	cancel()
	page, err := s.engine.Events(now, s.of.where, s.at)
	if err != nil {
		return err
	}
	if s.at == (engine.EventCursor{}) {
		s.at = page.Next
	}
	return s.emit(&taskenginev1.EventsResponse{Node: text(s.engine.Name()), Cursor: s.at.String()})
}

// close implements [eventStream].
func (s *eventSender) close() {}

// next sends the next events, or only a newer cursor when until ends. It returns when they were sent, and what the store has after a gap.
func (s *eventSender) next(ctx, until context.Context) error {
	page, err := s.engine.Events(until, s.of.where, s.at)
	if err != nil {
		return err
	}
	res := &taskenginev1.EventsResponse{Cursor: page.Next.String()}
	if page.Gap != nil {
		gap := gapMessage(page.Gap)
		if !s.of.catchUp {
			res.Gap = gap
		} else if err := s.fill(ctx, gap, page.Gap.From); err != nil {
			return err
		}
	}
	for _, e := range page.Events {
		res.Events = append(res.Events, &taskenginev1.TaskEvent{Task: summaryOf(e.Task), At: stamp(e.At), Cursor: e.Next.String()})
	}
	if err := s.emit(res); err != nil {
		return err
	}
	s.at = page.Next
	return nil
}

func gapMessage(g *engine.EventGap) *taskenginev1.EventGap {
	return &taskenginev1.EventGap{From: stamp(g.From), Until: stamp(g.Until), Text: text(g.Text)}
}

// fill sends a gap, and the tasks that have changed since. A client that is interrupted continues before the gap.
func (s *eventSender) fill(ctx context.Context, gap *taskenginev1.EventGap, from time.Time) error {
	before := s.at
	if before.At.After(from) {
		before = engine.EventCursor{At: from}
	}
	if err := s.emit(&taskenginev1.EventsResponse{Gap: gap, Cursor: before.String()}); err != nil {
		return err
	}
	return s.engine.ChangedSince(ctx, s.of.where, from, func(ts []*task.Task) error {
		res := &taskenginev1.EventsResponse{Cursor: before.String()}
		for _, t := range ts {
			res.Events = append(res.Events, &taskenginev1.TaskEvent{Task: summaryOf(t), At: stamp(t.UpdatedAt), FromStore: true})
		}
		return s.emit(res)
	})
}

// serveEvents answers GET requests with server-sent events: begin, silent, gap, task and rest, with the fields of the API as data. The id
// of an event is its cursor.
func (a *API) serveEvents(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	req := &taskenginev1.EventsRequest{Where: q.Get("where"), Types: q["type"], Cursor: q.Get("cursor"), CatchUp: q.Get("catch_up") == "true"}
	if last := r.Header.Get("Last-Event-ID"); last != "" {
		req.Cursor = last
	}
	stream := &sseWriter{to: w, control: http.NewResponseController(w)}
	s, err := a.eventStream(r.Context(), req, stream.send)
	if err == nil {
		defer s.close()
	}
	for err == nil && r.Context().Err() == nil {
		select {
		case <-a.stopping:
			return // the client connects again, to another node
		default:
		}
		until, cancel := context.WithTimeout(r.Context(), sseRest)
		err = s.next(r.Context(), until)
		cancel()
	}
	if err != nil && !stream.began {
		failed := a.answer(err)
		http.Error(w, failed.Error(), httpStatus(connect.CodeOf(failed)))
	}
}

func httpStatus(code connect.Code) int {
	switch code {
	case connect.CodeInvalidArgument:
		return http.StatusBadRequest
	case connect.CodePermissionDenied:
		return http.StatusForbidden
	case connect.CodeUnauthenticated:
		return http.StatusUnauthorized
	case connect.CodeUnimplemented:
		return http.StatusNotImplemented
	}
	return http.StatusServiceUnavailable
}

// sseWriter writes responses as server-sent events.
type sseWriter struct {
	to      http.ResponseWriter
	control *http.ResponseController
	began   bool
}

var sseJSON = protojson.MarshalOptions{UseProtoNames: true}

func (s *sseWriter) send(res *taskenginev1.EventsResponse) error {
	_ = s.control.SetWriteDeadline(time.Now().Add(writeTimeout)) // else a client that reads no more holds the stream for ever
	if !s.began {
		s.began = true
		s.to.Header().Set("Content-Type", "text/event-stream")
		s.to.Header().Set("Cache-Control", "no-store")
		s.to.WriteHeader(http.StatusOK)
		if err := s.write("begin", res.GetCursor(), map[string]any{"node": res.GetNode()}); err != nil {
			return err
		}
		if err := s.writeSilent(res); err != nil {
			return err
		}
		return s.control.Flush()
	}
	if err := s.writeSilent(res); err != nil {
		return err
	}
	if g := res.GetGap(); g != nil {
		data, err := sseJSON.Marshal(g)
		if err == nil {
			err = s.write("gap", "", json.RawMessage(data))
		}
		if err != nil {
			return err
		}
	}
	for _, e := range res.GetEvents() {
		data, err := sseJSON.Marshal(e)
		if err == nil {
			err = s.write("task", e.GetCursor(), json.RawMessage(data))
		}
		if err != nil {
			return err
		}
	}
	if err := s.write("rest", res.GetCursor(), struct{}{}); err != nil {
		return err
	}
	return s.control.Flush()
}

// writeSilent writes an event for each node that does not answer.
func (s *sseWriter) writeSilent(res *taskenginev1.EventsResponse) error {
	for _, n := range res.GetSilent() {
		data, err := sseJSON.Marshal(n)
		if err == nil {
			err = s.write("silent", "", json.RawMessage(data))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// write writes an event; without an id the client keeps the one of the event before.
func (s *sseWriter) write(event, id string, data any) error {
	text, err := json.Marshal(data)
	if err != nil {
		return err
	}
	if id != "" {
		id = "id: " + id + "\n"
	}
	_, err = fmt.Fprintf(s.to, "event: %s\n%sdata: %s\n\n", event, id, text)
	return err
}
