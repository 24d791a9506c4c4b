package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/taskengine/taskengine/engine"
	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
	"github.com/taskengine/taskengine/server/proto/taskengine/v1/taskenginev1connect"
	"github.com/taskengine/taskengine/task"
)

// Submit adds tasks.
func (a *API) Submit(ctx context.Context, req *taskenginev1.SubmitRequest) (*taskenginev1.SubmitResponse, error) {
	reqs, err := requestsOf(req.GetTasks(), a.engine.Now())
	if err != nil {
		return nil, a.answer(err)
	}
	for _, r := range reqs {
		if err := a.permitRequest(ctx, &r); err != nil {
			return nil, a.answer(err)
		}
	}
	if a.submitted != nil {
		ctx = a.submitted(ctx, headerOf(ctx))
	}
	ctx, cancel := patient(ctx)
	defer cancel()
	receipts, err := a.engine.Submit(ctx, reqs...)
	if err != nil && (len(receipts) < 2 || !isPartial(err)) {
		return nil, a.answer(err)
	}
	res := &taskenginev1.SubmitResponse{Receipts: make([]*taskenginev1.Receipt, len(receipts))}
	var warnings typeWarnings
	for i, r := range receipts {
		res.Receipts[i] = receiptOf(r, warnings.of(ctx, a, reqs[i].Type))
	}
	return res, nil
}

// headerOf returns a function that returns headers of the request of ctx, for either server.
func headerOf(ctx context.Context) func(name string) string {
	if info, ok := connect.CallInfoForHandlerContext(ctx); ok {
		return info.RequestHeader().Get
	}
	return func(name string) string {
		if values := metadata.ValueFromIncomingContext(ctx, name); len(values) > 0 {
			return values[0]
		}
		return ""
	}
}

// receiptOf returns the message of a receipt. warning is that of the type, see [API.warningOf].
func receiptOf(r engine.Receipt, warning string) *taskenginev1.Receipt {
	m := &taskenginev1.Receipt{Created: r.Created, Outcome: r.Outcome.String()}
	if !r.ID.IsZero() {
		m.Id = r.ID.String()
	}
	if warning != "" && (r.Outcome == engine.OutcomeCreated || r.Outcome == engine.OutcomeExisting || r.Outcome == engine.OutcomeReplaced) {
		m.Warning = &warning
	}
	return m
}

// patient returns the context of a request that may wait for room in a backlog: for at most [MaxWait],
// and until a moment before the deadline of the client, so that the client gets the answer.
func patient(ctx context.Context) (context.Context, context.CancelFunc) {
	wait := MaxWait
	if deadline, ok := ctx.Deadline(); ok {
		left := time.Until(deadline)
		wait = min(wait, left-min(left/10, time.Second))
	}
	return context.WithTimeout(ctx, wait)
}

// Get returns one task.
func (a *API) Get(ctx context.Context, req *taskenginev1.GetRequest) (*taskenginev1.GetResponse, error) {
	if err := a.permit(ctx, typesOf(req.GetType())...); err != nil {
		return nil, err
	}
	t, err := a.get(ctx, req)
	if t != nil {
		err = cmp.Or(a.permit(ctx, t.Type), err)
	}
	if err != nil {
		return nil, a.answer(err)
	}
	return &taskenginev1.GetResponse{Task: messageOf(t)}, nil
}

// typesOf returns the type that a request names, if it names one.
func typesOf(typ string) []string {
	if typ == "" {
		return nil
	}
	return []string{typ}
}

func (a *API) get(ctx context.Context, req *taskenginev1.GetRequest) (*task.Task, error) {
	byKey := req.GetType() != "" || req.GetKey() != "" || req.GetOrderingKey() != ""
	switch {
	case byKey && req.GetId() != "":
		return nil, invalid("id and key exclude each other")
	case byKey && (req.GetType() == "" || req.GetKey() == ""):
		return nil, invalid("type and key go together")
	case byKey:
		t, err := a.engine.Find(ctx, req.GetType(), req.GetOrderingKey(), req.GetKey())
		if errors.Is(err, task.ErrNotFound) {
			err = fmt.Errorf("no task of type %s has the key %q: %w", req.GetType(), req.GetKey(), task.ErrNotFound)
		}
		return t, err
	}
	id, err := parseID(req.GetId())
	if err != nil {
		return nil, err
	}
	return a.engine.Get(ctx, id)
}

// List returns a page of tasks.
func (a *API) List(ctx context.Context, req *taskenginev1.ListRequest) (*taskenginev1.ListResponse, error) {
	filter, err := filterOf(req.GetStates(), req.GetTypes())
	if err != nil {
		return nil, a.answer(err)
	}
	if err := a.permitFilter(ctx, req.GetTypes()); err != nil {
		return nil, err
	}
	filter.Key = req.GetKey()
	if req.GetLimit() > MaxList {
		return nil, a.answer(invalid("limit is %d, of %d allowed", req.GetLimit(), MaxList))
	}
	var before task.ID
	if token := req.GetPageToken(); token != "" {
		if before, err = task.ParseID(token); err != nil {
			return nil, a.answer(invalid("page_token is not one of an earlier response"))
		}
	}
	limit := cmp.Or(int(req.GetLimit()), defaultList)
	if req.GetWhere() != "" {
		return a.search(ctx, req, filter, before, limit)
	}
	tasks, next, err := a.engine.List(ctx, filter, before, limit)
	if err != nil {
		return nil, a.answer(err)
	}
	res := &taskenginev1.ListResponse{Tasks: summariesOf(tasks)}
	if !next.IsZero() {
		res.NextPageToken = next.String()
	}
	return res, nil
}

// Count returns the number of tasks per type and state.
func (a *API) Count(ctx context.Context, req *taskenginev1.CountRequest) (*taskenginev1.CountResponse, error) {
	filter, err := filterOf(req.GetStates(), req.GetTypes())
	if err != nil {
		return nil, a.answer(err)
	}
	if err := a.permitFilter(ctx, req.GetTypes()); err != nil {
		return nil, err
	}
	counted, err := a.count(ctx, req.GetWhere(), filter)
	if err != nil {
		return nil, a.answer(err)
	}
	res := &taskenginev1.CountResponse{Read: int64(counted.Read), Index: counted.Index, Partial: counted.Partial, Total: counted.Total}
	for of, n := range counted.Counts {
		res.Counts = append(res.Counts, &taskenginev1.StateCount{State: of.State.String(), Type: text(of.Type), Count: n})
	}
	slices.SortFunc(res.Counts, func(a, b *taskenginev1.StateCount) int {
		return cmp.Or(cmp.Compare(a.Type, b.Type), cmp.Compare(a.State, b.State))
	})
	return res, nil
}

// Wait waits for tasks to end.
func (a *API) Wait(ctx context.Context, req *taskenginev1.WaitRequest) (*taskenginev1.WaitResponse, error) {
	ids, timeout, err := waitOf(req)
	if err != nil {
		return nil, a.answer(err)
	}
	if err := a.permit(ctx, typesOf(req.GetType())...); err != nil {
		return nil, err
	}
	if err := a.permitTasks(ctx, ids...); err != nil {
		return nil, a.answer(err)
	}
	waiting, cancel := context.WithTimeoutCause(ctx, timeout, errPolled)
	defer cancel()
	if req.GetType() != "" {
		err = a.engine.WaitType(waiting, req.GetType())
	} else {
		err = a.engine.WaitTasks(waiting, ids...)
	}
	res := &taskenginev1.WaitResponse{Settled: err == nil}
	if err != nil && !polled(waiting) {
		return nil, a.answer(err)
	}
	for _, id := range ids {
		t, err := a.engine.Get(ctx, id)
		if err == nil || errors.Is(err, engine.ErrUnreadable) { // a summary has nothing that is encoded
			err = a.permit(ctx, t.Type) // it may be new
		}
		switch {
		case errors.Is(err, task.ErrNotFound):
			res.Missing = append(res.Missing, id.String())
		case err != nil:
			return nil, a.answer(err)
		default:
			res.Tasks = append(res.Tasks, summaryOf(t))
		}
	}
	return res, nil
}

// errPolled is the cause of the end of a long poll after its timeout.
var errPolled = errors.New("the poll is over")

// polled reports whether ctx ended by the timeout of the poll, and not by the client.
func polled(ctx context.Context) bool { return errors.Is(context.Cause(ctx), errPolled) }

func waitOf(req *taskenginev1.WaitRequest) (ids []task.ID, timeout time.Duration, err error) {
	switch {
	case len(req.GetIds()) > 0 && req.GetType() != "":
		return nil, 0, invalid("ids and type exclude each other")
	case len(req.GetIds()) == 0 && req.GetType() == "":
		return nil, 0, invalid("neither ids nor a type are given")
	case len(req.GetIds()) > MaxSubmit:
		return nil, 0, invalid("%d ids, of %d allowed in one request", len(req.GetIds()), MaxSubmit)
	}
	for _, text := range req.GetIds() {
		id, err := parseID(text)
		if err != nil {
			return nil, 0, err
		}
		ids = append(ids, id)
	}
	timeout, err = pollOf(req.GetTimeout())
	return ids, timeout, err
}

// pollOf returns how long a request may wait.
func pollOf(d *durationpb.Duration) (time.Duration, error) {
	if d == nil {
		return defaultWait, nil
	}
	timeout, err := durationOf("timeout", d)
	return min(timeout, MaxWait), err
}

// Why returns the reasons that keep a task from running.
func (a *API) Why(ctx context.Context, req *taskenginev1.WhyRequest) (*taskenginev1.WhyResponse, error) {
	id, err := parseID(req.GetId())
	if err != nil {
		return nil, a.answer(err)
	}
	t, reasons, err := a.engine.Why(ctx, id)
	if err == nil {
		err = a.permit(ctx, t.Type)
	}
	if err != nil {
		return nil, a.answer(err)
	}
	for i := range reasons {
		if r := &reasons[i]; r.Code == engine.CodeNoHandler {
			if near := a.nearType(ctx, t.Type); near != "" && !a.engine.KnowsType(ctx, t.Type) {
				r.Text += "; did you mean " + near + "?"
			}
		}
	}
	res := &taskenginev1.WhyResponse{Task: summaryOf(t), Reasons: reasonsOf(reasons), Node: text(a.node)}
	if !req.GetHistory() {
		return a.whyElsewhere(ctx, req, res, t), nil
	}
	_, h, err := a.engine.WaitHistory(ctx, id)
	if err != nil {
		return nil, a.answer(err)
	}
	res.NotedSince = stamp(h.Since)
	for _, w := range h.Waits {
		res.Waits = append(res.Waits, &taskenginev1.Wait{
			Code: w.Code, Text: text(w.Text), Limit: w.Limit, Value: text(w.Value),
			Total: durationpb.New(w.For), From: stamp(w.From), Until: stamp(w.Until),
		})
	}
	return a.whyElsewhere(ctx, req, res, t), nil
}

// whyElsewhere returns the answer of the node that runs a task, or is to start it, in place of that of this node.
func (a *API) whyElsewhere(ctx context.Context, req *taskenginev1.WhyRequest, own *taskenginev1.WhyResponse, t *task.Task) *taskenginev1.WhyResponse {
	if len(own.GetReasons()) == 0 || a.peers == nil || ctx.Value(askedKey{}) != nil {
		return own
	}
	if code := own.GetReasons()[0].GetCode(); code != engine.CodeElsewhere && code != engine.CodeRunning {
		return own
	}
	node, isOther := a.engine.NodeOf(t)
	if !isOther {
		return own
	}
	var answer *taskenginev1.WhyResponse
	err := a.peers.AskOne(a.forCaller(ctx), &node, func(ctx context.Context, c taskenginev1connect.TaskServiceClient) (err error) {
		answer, err = c.Why(ctx, req)
		return err
	})
	switch {
	case err == nil:
		return answer
	case connect.CodeOf(err) != connect.CodeNotFound:
		own.Silent = append(own.Silent, silentOf(&node, err))
	}
	return own
}
