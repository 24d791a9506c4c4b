package client

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"google.golang.org/grpc/codes"

	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
	"github.com/taskengine/taskengine/server/proto/taskengine/v1/taskenginev1connect"
	"github.com/taskengine/taskengine/task"
)

// MaxAll is how many tasks one [Client.SubmitAll] may have.
const MaxAll = 1000

// ReceiptOutcome is the effect of a request. A node of a newer version may have others.
type ReceiptOutcome string

// The outcomes of a request. The last two are only in the receipts of a [Client.SubmitAll] of several tasks.
const (
	ReceiptCreated     ReceiptOutcome = "created"      // a task was added
	ReceiptExisting    ReceiptOutcome = "existing"     // there was such a task: nothing was changed
	ReceiptReplaced    ReceiptOutcome = "replaced"     // the task with the key has the content of the request now
	ReceiptAlreadyDone ReceiptOutcome = "already_done" // the task with the key is done: nothing was changed
	ReceiptRejected    ReceiptOutcome = "rejected"     // there is a task with the key, and the type rejects such requests
	ReceiptLate        ReceiptOutcome = "late"         // the time of the request lies further in the past than the type allows
)

// Receipt says which task a request has added. The task is durable.
type Receipt struct {
	ID      task.ID // of the new task, or of the existing task with the same id or key; zero if Outcome is [ReceiptLate]
	Created bool    // false if there was such a task: nothing was added. With an [ID] of the caller, an earlier try may have added it

	// Outcome is the effect of the request. It is empty if the version of the node does not report it.
	Outcome ReceiptOutcome

	// Warning says that the task waits because no live node has a handler for its type and the node does not know
	// the type, and which type may be meant. It is empty if a node has one.
	Warning string
}

// Outcome is the outcome of one of several requests.
type Outcome struct {
	Receipt Receipt
	Err     error // nil if the task is durable
}

// Submit adds a task, and returns when it is durable. Calls at the same time share messages and commits. If no node
// answers, Submit asks again, here or at another address, until its context ends. After an error that wraps
// [ErrUnavailable], [ErrClosed] or that of its context the task may have been added: to find out, submit it again with
// the same [ID] or [Key].
func (c *Client) Submit(ctx context.Context, typ string, payload any, options ...Option) (Receipt, error) {
	r, err := New(typ, payload, options...)
	if err != nil {
		return Receipt{}, err
	}
	out := c.SubmitEach(ctx, r)[0]
	return out.Receipt, out.Err
}

// SubmitEach is Submit for many tasks; each is added or refused by itself. It returns an outcome for each, in the same
// order.
func (c *Client) SubmitEach(ctx context.Context, requests ...Request) []Outcome {
	ctx, cancel := c.limited(ctx)
	defer cancel()
	end, _ := ctx.Deadline()
	wait := time.Until(end)
	outcomes := make([]Outcome, len(requests))
	calls := make([]*submission, len(requests))
	for i := range requests {
		o, err := c.outgoing(ctx, &requests[i])
		if err != nil {
			outcomes[i].Err = err
			continue
		}
		calls[i] = &submission{outgoing: o, wait: wait, done: make(chan struct{})}
	}
	c.flow.add(calls)
	for i, s := range calls {
		if s == nil {
			continue
		}
		select {
		case <-s.done:
			outcomes[i] = s.outcome
		case <-ctx.Done():
			outcomes[i] = c.flow.abandon(ctx, s)
		}
	}
	return outcomes
}

// SubmitAll adds up to [MaxAll] tasks together: if one of them is refused, none is added. But if a key is taken and its type
// rejects that, or a request is late and its type refuses that, the other tasks are added: SubmitAll returns all receipts then,
// and an error that wraps [ErrExists] or [ErrLate]. The outcomes of these requests are [ReceiptRejected] and
// [ReceiptLate].
func (c *Client) SubmitAll(ctx context.Context, requests ...Request) ([]Receipt, error) {
	if len(requests) == 0 {
		return nil, nil
	}
	req, sent := &taskenginev1.SubmitRequest{Tasks: make([]*taskenginev1.NewTask, len(requests))}, make([]outgoing, len(requests))
	for i := range requests {
		o, err := c.outgoing(ctx, &requests[i])
		if err != nil {
			return nil, err
		}
		req.Tasks[i], sent[i] = o.message, o
	}
	receipts, err := c.submitUnary(ctx, req)
	for i := range receipts {
		sent[i].claim(&receipts[i])
	}
	return receipts, err
}

// submitUnary adds tasks by one request, which may be repeated. With an error that wraps [ErrExists] or [ErrLate] it returns
// all receipts, if there are several.
func (c *Client) submitUnary(ctx context.Context, req *taskenginev1.SubmitRequest) ([]Receipt, error) {
	res, err := call[taskenginev1.SubmitResponse](ctx, c, taskenginev1connect.TaskServiceSubmitProcedure, req, true)
	if err != nil {
		return nil, err
	}
	if len(res.GetReceipts()) != len(req.GetTasks()) {
		return nil, fmt.Errorf("taskengine: a node answered %d tasks with %d receipts", len(req.GetTasks()), len(res.GetReceipts()))
	}
	receipts := make([]Receipt, len(res.GetReceipts()))
	for i, r := range res.GetReceipts() {
		if receipts[i], err = receiptOf(r); err != nil {
			return nil, err
		}
	}
	var refused []error // the first of each kind
	for i, r := range receipts {
		err := refusal(req.GetTasks()[i], r)
		if err != nil && !slices.ContainsFunc(refused, func(e error) bool { return errors.Is(err, ErrLate) == errors.Is(e, ErrLate) }) {
			refused = append(refused, fmt.Errorf("request %d of %d, and perhaps others: %w", i+1, len(receipts), err))
		}
	}
	return receipts, errors.Join(refused...)
}

// claim marks a receipt as that of a new task if the task has an id that the client has made: an earlier try has added it.
func (o *outgoing) claim(r *Receipt) {
	if o.isOwn && r.ID == o.id {
		r.Created, r.Outcome = true, ReceiptCreated
	}
}

// receiptOf converts a receipt. One without an id is that of a request that was late.
func receiptOf(m *taskenginev1.Receipt) (Receipt, error) {
	var d decoder
	r := Receipt{ID: d.id(m.GetId()), Created: m.GetCreated(), Outcome: ReceiptOutcome(m.GetOutcome()), Warning: m.GetWarning()}
	if d.err == nil && r.ID.IsZero() && r.Outcome != ReceiptLate {
		d.err = errors.New("taskengine: a node has answered with a receipt without an id")
	}
	return r, d.err
}

// refusal returns the error of a request of several that was refused while the others were done, or nil.
func refusal(m *taskenginev1.NewTask, r Receipt) error {
	switch r.Outcome {
	case ReceiptRejected:
		return newError("", codes.AlreadyExists, fmt.Sprintf("task %v has the key of the request, and its type rejects that", r.ID), "")
	case ReceiptLate:
		return newError("", codes.OutOfRange, fmt.Sprintf("the time of the request, %s, lies further in the past than max_lateness of type %s allows; submit it with a later time, or without one",
			m.GetAt().AsTime().Format(time.RFC3339Nano), m.GetType()), "")
	}
	return nil
}
