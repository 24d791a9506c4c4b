package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"
	"unicode/utf8"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/taskengine/taskengine/engine/task"
	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
	"github.com/taskengine/taskengine/server/proto/taskengine/v1/taskenginev1connect"
)

// MaxAll is how many tasks one [Client.SubmitAll] may have.
const MaxAll = 1000

// Raw is a payload that is sent as it is, as []byte is. Other payloads are encoded as JSON, also texts: "x" is sent with its
// quotes, as a handler of type string expects it.
type Raw []byte

// Request describes a task to add, as [New] and options make it.
type Request struct{ message *taskenginev1.NewTask }

// Option sets a part of a request.
type Option func(*taskenginev1.NewTask)

// ID gives a task an id of the caller's own, so that the caller can submit it again later.
func ID(id task.ID) Option { return func(m *taskenginev1.NewTask) { m.Id = id.String() } }

// Key makes a task unique among the tasks of its type that are kept.
func Key(key string) Option { return func(m *taskenginev1.NewTask) { m.Key = key } }

// OrderingKey has a task run after those that were added before with the same key.
func OrderingKey(key string) Option { return func(m *taskenginev1.NewTask) { m.OrderingKey = key } }

// Priority is 0 (sooner) to 9 (later).
func Priority(p uint8) Option {
	return func(m *taskenginev1.NewTask) { n := uint32(p); m.Priority = &n }
}

// At starts a task not before a time.
func At(t time.Time) Option { return func(m *taskenginev1.NewTask) { m.At = timestamppb.New(t) } }

// In starts a task not before a duration, which begins when the node gets the request.
func In(d time.Duration) Option { return func(m *taskenginev1.NewTask) { m.In = durationpb.New(d) } }

// ExpiresAt makes a task an error that has not begun by a time.
func ExpiresAt(t time.Time) Option {
	return func(m *taskenginev1.NewTask) { m.ExpiresAt = timestamppb.New(t) }
}

// Header adds a header.
func Header(key, value string) Option {
	return func(m *taskenginev1.NewTask) {
		if m.Headers == nil {
			m.Headers = make(map[string]string)
		}
		m.Headers[key] = value
	}
}

// New describes a task. The payload is any value that encodes as JSON, or []byte or [Raw], which are sent as they are; nil is no
// payload.
func New(typ string, payload any, options ...Option) (Request, error) {
	m := &taskenginev1.NewTask{Type: typ}
	switch p := payload.(type) {
	case nil:
	case Raw:
		m.Input = &taskenginev1.NewTask_Payload{Payload: p}
	case []byte:
		m.Input = &taskenginev1.NewTask_Payload{Payload: p}
	default:
		text, err := json.Marshal(p)
		if err != nil {
			return Request{}, fmt.Errorf("taskengine: the payload of a task of type %.40q as JSON: %w", typ, err)
		}
		m.Input = &taskenginev1.NewTask_Payload{Payload: text}
	}
	for _, o := range options {
		o(m)
	}
	return Request{m}, nil
}

// Receipt says which task a request has added. The task is durable.
type Receipt struct {
	ID      task.ID // of the new task, or of the existing task with the same id or key; zero if Outcome is "late"
	Created bool    // false if there was such a task: nothing was added. With an [ID] of the caller, an earlier try may have added it

	// Outcome is what the request has done: "created", "existing", "replaced" (the task with its key has its
	// content now) or "already_done" (the task with its key has ended). It is empty if the node is of a version
	// that does not say it.
	Outcome string

	// Warning says for people that the task waits because no live node has a handler for its type, of which the node
	// that was asked knows nothing, and which type may be meant. It is empty if that is not so.
	Warning string
}

// Outcome is what became of one of several requests.
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

// SubmitEach is Submit for many tasks, of which each is added or refused by itself. It returns an outcome for each, in
// the same order.
func (c *Client) SubmitEach(ctx context.Context, requests ...Request) []Outcome {
	ctx, cancel := c.limited(ctx)
	defer cancel()
	end, _ := ctx.Deadline()
	wait := time.Until(end)
	outcomes := make([]Outcome, len(requests))
	calls := make([]*submission, len(requests))
	for i, r := range requests {
		m, isOwn, err := c.message(ctx, r)
		if err != nil {
			outcomes[i].Err = err
			continue
		}
		calls[i] = &submission{task: m, isOwn: isOwn, wait: wait, done: make(chan struct{})}
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
// and an error that wraps [ErrExists] or [ErrLate]. The outcomes of these requests are "rejected" and "late".
func (c *Client) SubmitAll(ctx context.Context, requests ...Request) ([]Receipt, error) {
	if len(requests) == 0 {
		return nil, nil
	}
	req, own := new(taskenginev1.SubmitRequest), make([]bool, len(requests))
	for i, r := range requests {
		m, isOwn, err := c.message(ctx, r)
		if err != nil {
			return nil, err
		}
		req.Tasks, own[i] = append(req.Tasks, m), isOwn
	}
	receipts, err := c.submitUnary(ctx, req)
	for i := range receipts {
		if own[i] && receipts[i].ID.String() == req.GetTasks()[i].GetId() {
			receipts[i].Created, receipts[i].Outcome = true, "created" // an earlier try has added it
		}
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

// errNoRequest is the error of a request that New has not made.
var errNoRequest = errors.New("taskengine: a Request is made by client.New")

// message returns the message of a request, decorated and with an id. isOwn is whether the client
// has made the id: nothing else adds a task under it.
func (c *Client) message(ctx context.Context, r Request) (m *taskenginev1.NewTask, isOwn bool, err error) {
	if r.message == nil {
		return nil, false, errNoRequest
	}
	m = &taskenginev1.NewTask{
		Id: r.message.GetId(), Type: r.message.GetType(), Input: r.message.GetInput(), Priority: r.message.Priority,
		Key: r.message.GetKey(), OrderingKey: r.message.GetOrderingKey(), At: r.message.GetAt(), In: r.message.GetIn(),
		ExpiresAt: r.message.GetExpiresAt(), Headers: r.message.GetHeaders(),
	}
	if c.options.Decorate != nil {
		m.Headers = maps.Clone(m.Headers)
		if err := c.options.Decorate(ctx, m); err != nil {
			return nil, false, fmt.Errorf("taskengine: Options.Decorate of a task of type %.40q: %w: %w", m.GetType(), ErrInvalid, err)
		}
	}
	if isOwn = m.GetId() == ""; isOwn {
		m.Id = c.newID(m).String()
	}
	return m, isOwn, checkText(m)
}

// checkText returns an error if m cannot be sent: its texts have to be UTF-8.
func checkText(m *taskenginev1.NewTask) error {
	isText := utf8.ValidString(m.GetId()) && utf8.ValidString(m.GetType()) && utf8.ValidString(m.GetKey()) && utf8.ValidString(m.GetOrderingKey())
	for k, v := range m.GetHeaders() {
		isText = isText && utf8.ValidString(k) && utf8.ValidString(v)
	}
	if !isText {
		return newError("", codes.InvalidArgument, "the id, the type, the keys and the headers of a task must be UTF-8 text", "")
	}
	return nil
}

// newID returns an id that fits the keys of a task, where several databases hold the tasks.
func (c *Client) newID(m *taskenginev1.NewTask) task.ID {
	if shard, isBound := task.BoundShard(m.GetType(), m.GetKey(), m.GetOrderingKey()); isBound {
		return c.ids.NextIn(time.Now(), shard)
	}
	return c.ids.Next(time.Now())
}

func receiptOf(r *taskenginev1.Receipt) (Receipt, error) {
	id, err := task.ParseID(r.GetId())
	if err != nil && r.GetOutcome() != late {
		return Receipt{}, fmt.Errorf("taskengine: the id of a receipt: %w", err)
	}
	return Receipt{id, r.GetCreated(), r.GetOutcome(), r.GetWarning()}, nil
}

// Outcomes of requests of several that were refused while the others were done.
const (
	rejected = "rejected" // the key is taken, and the type rejects that
	late     = "late"     // the time lies too far in the past
)

// refusal returns the error of a request of several that was refused while the others were done, or nil.
func refusal(m *taskenginev1.NewTask, r Receipt) error {
	switch r.Outcome {
	case rejected:
		return newError("", codes.AlreadyExists, fmt.Sprintf("task %v has the key of the request, and its type rejects that", r.ID), "")
	case late:
		return newError("", codes.OutOfRange, fmt.Sprintf("the time of the request, %s, lies further in the past than max_lateness of type %s allows; submit it with a later time, or without one",
			m.GetAt().AsTime().Format(time.RFC3339Nano), m.GetType()), "")
	}
	return nil
}
