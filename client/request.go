package client

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"time"
	"unicode/utf8"

	"google.golang.org/grpc/codes"

	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
	"github.com/taskengine/taskengine/task"
)

// Raw is a payload that is sent as it is, as []byte is. Other payloads are encoded as JSON, also texts: "x" is sent with its
// quotes, as a handler of type string expects it.
type Raw []byte

// Request describes a task to add, as [New] and options make it. Only Type is required. The node checks the limits of its parts.
type Request struct {
	ID          task.ID           // of the caller, so that the request can be repeated; zero: the client makes one
	Type        string            // of the task
	Payload     []byte            // the input of the handler, as it is sent. Several requests may share it: nothing changes it
	Priority    *uint8            // 0 (sooner) to 9 (later); nil: that of the type
	Key         string            // unique among the tasks of the type that are kept; empty: none
	OrderingKey string            // tasks with the same one run one at a time; empty: none
	At          time.Time         // the task does not start before; zero: now. At most one of At and In is given
	In          time.Duration     // the task starts no earlier than this after the node got the request
	ExpiresAt   time.Time         // a task that has not begun by then becomes an error; zero: never
	Headers     map[string]string // stored with the task; nil: none
	After       []task.ID         // the task runs when these tasks, which exist, are done; see [After]; nil: none
	AfterAny    bool              // the task runs when the tasks of After have ended, however

	problem error // the mistake of an option; nil if there is none
}

// Option sets a part of a request.
type Option func(*Request)

// ID gives a task an id of the caller, so that the caller can repeat the request. The zero id is
// refused.
func ID(id task.ID) Option {
	return func(r *Request) {
		if r.ID = id; id.IsZero() {
			r.problem = newError("", codes.InvalidArgument, "the option ID has the zero id; give an id of task.IDs, or leave the option out", "")
		}
	}
}

// Key makes a task unique among the tasks of its type that are kept.
func Key(key string) Option { return func(r *Request) { r.Key = key } }

// OrderingKey runs a task after earlier tasks with the same key, one at a time.
func OrderingKey(key string) Option { return func(r *Request) { r.OrderingKey = key } }

// Priority is 0 (sooner) to 9 (later).
func Priority(p uint8) Option { return func(r *Request) { r.Priority = &p } }

// At starts a task not before a time. The zero time is refused.
func At(t time.Time) Option {
	return func(r *Request) {
		if r.At = t; t.IsZero() {
			r.problem = newError("", codes.InvalidArgument, "the option At has the zero time; leave it out for a task that is due now", "")
		}
	}
}

// In starts a task not before a duration, which begins when the node gets the request.
func In(d time.Duration) Option { return func(r *Request) { r.In = d } }

// ExpiresAt makes a task an error if it has not begun by a time. The zero time is refused.
func ExpiresAt(t time.Time) Option {
	return func(r *Request) {
		if r.ExpiresAt = t; t.IsZero() {
			r.problem = newError("", codes.InvalidArgument, "the option ExpiresAt has the zero time; leave it out for a task that does not expire", "")
		}
	}
}

// After runs a task when others, which exist, are done. If one of them fails or is cancelled, the task is cancelled.
func After(ids ...task.ID) Option { return func(r *Request) { r.After, r.AfterAny = ids, false } }

// AfterAny runs a task when others, which exist, have ended, however.
func AfterAny(ids ...task.ID) Option { return func(r *Request) { r.After, r.AfterAny = ids, true } }

// Header adds a header.
func Header(key, value string) Option {
	return func(r *Request) {
		if r.Headers == nil {
			r.Headers = make(map[string]string)
		}
		r.Headers[key] = value
	}
}

// New describes a task. The payload is any value that encodes as JSON, or []byte or [Raw], which are sent as they are; nil is no
// payload.
func New(typ string, payload any, options ...Option) (Request, error) {
	r := Request{Type: typ}
	switch p := payload.(type) {
	case nil:
	case Raw:
		r.Payload = p
	case []byte:
		r.Payload = p
	default:
		text, err := json.Marshal(p)
		if err != nil {
			return Request{}, fmt.Errorf("taskengine: the payload of a task of type %.40q as JSON: %w", typ, err)
		}
		r.Payload = text
	}
	for _, o := range options {
		o(&r)
	}
	return r, nil
}

// outgoing is a request as it is sent.
type outgoing struct {
	message *taskenginev1.NewTask
	id      task.ID
	isOwn   bool // the client has made the id: nothing else adds a task under it
}

// outgoing returns a request, decorated and with an id.
func (c *Client) outgoing(ctx context.Context, r *Request) (o outgoing, err error) {
	if c.options.Decorate != nil {
		if r, err = c.decorated(ctx, *r); err != nil {
			return outgoing{}, err
		}
	}
	if r.problem != nil {
		return outgoing{}, r.problem
	}
	o.id, o.isOwn = r.ID, r.ID.IsZero()
	if o.isOwn {
		o.id = c.newID(r)
	}
	o.message = newTaskMessage(r, o.id)
	return o, checkText(r)
}

// decorated returns a request as the option changes it.
func (c *Client) decorated(ctx context.Context, r Request) (*Request, error) {
	r.Headers = maps.Clone(r.Headers)
	if err := c.options.Decorate(ctx, &r); err != nil {
		return nil, fmt.Errorf("taskengine: Options.Decorate of a task of type %.40q: %w: %w", r.Type, ErrInvalid, err)
	}
	return &r, nil
}

// newTaskMessage returns the message of a request with an id. Its parts are one allocation, as far as most tasks have them.
func newTaskMessage(r *Request, id task.ID) *taskenginev1.NewTask {
	var parts struct {
		message  taskenginev1.NewTask
		payload  taskenginev1.NewTask_Payload
		priority uint32
	}
	m := &parts.message
	m.Id, m.Type, m.Key, m.OrderingKey, m.Headers = id.String(), r.Type, r.Key, r.OrderingKey, r.Headers
	m.At, m.In, m.ExpiresAt = stamp(r.At), span(r.In), stamp(r.ExpiresAt)
	m.AfterAny = r.AfterAny
	for _, id := range r.After {
		m.After = append(m.After, id.String())
	}
	if r.Payload != nil {
		parts.payload.Payload = r.Payload
		m.Input = &parts.payload
	}
	if r.Priority != nil {
		parts.priority = uint32(*r.Priority)
		m.Priority = &parts.priority
	}
	return m
}

// checkText returns an error if a request cannot be sent: its texts have to be UTF-8.
func checkText(r *Request) error {
	isSendable := utf8.ValidString(r.Type) && utf8.ValidString(r.Key) && utf8.ValidString(r.OrderingKey)
	for k, v := range r.Headers {
		isSendable = isSendable && utf8.ValidString(k) && utf8.ValidString(v)
	}
	if !isSendable {
		return newError("", codes.InvalidArgument, "the type, the keys and the headers of a task must be UTF-8 text", "")
	}
	return nil
}

// newID returns an id that fits the keys of a task, where several databases hold the tasks.
func (c *Client) newID(r *Request) task.ID {
	if shard, isBound := task.BoundShard(r.Type, r.Key, r.OrderingKey); isBound {
		return c.ids.NextIn(time.Now(), shard)
	}
	return c.ids.Next(time.Now())
}
