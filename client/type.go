package client

import (
	"context"

	"github.com/taskengine/taskengine/task"
)

// Type is a type of task with its payload and its result, which are encoded as JSON:
//
//	var Resize = client.Type[Image, Size]("resize")
type Type[Payload, Result any] string

// Submit is [Client.Submit] for the type.
func (t Type[Payload, Result]) Submit(ctx context.Context, c *Client, p Payload, options ...Option) (Receipt, error) {
	return c.Submit(ctx, string(t), p, options...)
}

// New is [New] for the type.
func (t Type[Payload, Result]) New(p Payload, options ...Option) (Request, error) {
	return New(string(t), p, options...)
}

// Result is [Client.Result] for the type.
func (t Type[Payload, Result]) Result(ctx context.Context, c *Client, id task.ID) (r Result, err error) {
	err = c.Result(ctx, id, &r)
	return r, err
}

// Payload returns the payload of a task of the type, as [Task.DecodePayload] decodes it.
func (t Type[Payload, Result]) Payload(of *Task) (p Payload, err error) {
	err = of.DecodePayload(&p)
	return p, err
}
