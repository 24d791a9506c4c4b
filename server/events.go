package server

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
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
	s, err := a.eventSender(ctx, req, send)
	if err != nil {
		return a.answer(err)
	}
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

// eventSender sends events to one client. It belongs to its goroutine.
type eventSender struct {
	engine  *engine.Engine
	where   filter.Filter
	at      engine.EventCursor
	catchUp bool
	emit    func(*taskenginev1.EventsResponse) error
}

// eventSender returns the sender of a request, which has sent the first response.
func (a *API) eventSender(ctx context.Context, req *taskenginev1.EventsRequest, send func(*taskenginev1.EventsResponse) error) (*eventSender, error) {
	rest, err := filterOf(nil, req.GetTypes())
	if err != nil {
		return nil, err
	}
	if err := a.permitFilter(ctx, req.GetTypes()); err != nil {
		return nil, err
	}
	where, err := filter.Parse(req.GetWhere(), a.engine.Now())
	if err != nil {
		return nil, invalid("where: %w", err)
	}
	if !where.OfRows() {
		return nil, invalid("where: events have neither the payload nor the result of a task, so the filter of a stream cannot ask for them")
	}
	where = where.And(filter.Of(nil, rest.Types, ""))
	if err := a.permitWhere(ctx, where); err != nil {
		return nil, err
	}
	s := &eventSender{engine: a.engine, where: where, catchUp: req.GetCatchUp(), emit: rechecked(a, ctx, send)}
	if s.at, err = a.eventCursor(req.GetCursor()); err != nil {
		return nil, invalid("cursor: %w", err)
	}
	first := &taskenginev1.EventsResponse{Node: text(a.engine.Name()), Cursor: s.at.String()}
	for _, m := range a.engine.Members() {
		if m.Name != a.engine.Name() {
			first.OtherNodes = append(first.OtherNodes, text(m.Name))
		}
	}
	if s.at == (engine.EventCursor{}) { // the cursor of the present, for a client that never gets an event
		now, cancel := context.WithCancel(ctx)
		cancel()
		page, err := s.engine.Events(now, s.where, s.at)
		if err != nil {
			return nil, err
		}
		s.at, first.Cursor = page.Next, page.Next.String()
	}
	return s, s.emit(first)
}

// eventCursor reads a cursor, a time, or a duration before the present of the cluster: the clock of the client may be wrong.
func (a *API) eventCursor(text string) (engine.EventCursor, error) {
	d, err := time.ParseDuration(text)
	switch {
	case err != nil:
		return engine.ParseEventCursor(text)
	case d < 0:
		return engine.EventCursor{}, fmt.Errorf("the duration %s is negative", text)
	}
	return engine.EventCursor{At: a.engine.Now().Add(-d)}, nil
}

// next sends the next events, or only a newer cursor when until ends. It returns when they were sent, and what the store has after a gap.
func (s *eventSender) next(ctx, until context.Context) error {
	page, err := s.engine.Events(until, s.where, s.at)
	if err != nil {
		return err
	}
	res := &taskenginev1.EventsResponse{Cursor: page.Next.String()}
	if page.Gap != nil {
		gap := &taskenginev1.EventGap{From: stamp(page.Gap.From), Until: stamp(page.Gap.Until), Text: text(page.Gap.Text)}
		if !s.catchUp {
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

// fill sends a gap, and the tasks that have changed since. A client that is interrupted continues before the gap.
func (s *eventSender) fill(ctx context.Context, gap *taskenginev1.EventGap, from time.Time) error {
	before := s.at
	if before.At.After(from) {
		before = engine.EventCursor{At: from}
	}
	if err := s.emit(&taskenginev1.EventsResponse{Gap: gap, Cursor: before.String()}); err != nil {
		return err
	}
	return s.engine.ChangedSince(ctx, s.where, from, func(ts []*task.Task) error {
		res := &taskenginev1.EventsResponse{Cursor: before.String()}
		for _, t := range ts {
			res.Events = append(res.Events, &taskenginev1.TaskEvent{Task: summaryOf(t), At: stamp(t.UpdatedAt), FromStore: true})
		}
		return s.emit(res)
	})
}

// serveEvents answers GET requests with server-sent events: begin, gap, task and rest, with the fields of the API as data. The id
// of an event is its cursor.
func (a *API) serveEvents(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	req := &taskenginev1.EventsRequest{Where: q.Get("where"), Types: q["type"], Cursor: q.Get("cursor"), CatchUp: q.Get("catch_up") == "true"}
	if last := r.Header.Get("Last-Event-ID"); last != "" {
		req.Cursor = last
	}
	stream := &sseWriter{to: w, control: http.NewResponseController(w)}
	s, err := a.eventSender(r.Context(), req, stream.send)
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
		if err := s.write("begin", res.GetCursor(), map[string]any{"node": res.GetNode(), "other_nodes": res.GetOtherNodes()}); err != nil {
			return err
		}
		return s.control.Flush()
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
