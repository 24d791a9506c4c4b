package peer

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"connectrpc.com/connect"

	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/server/proto/taskengine/v1/taskenginev1connect"
)

// Answer is the answer of a node.
type Answer[Res any] struct {
	Node coord.Member
	Res  Res
	Err  error // that the node has answered with, or why there is no answer: see IsSilent
}

// SilentError says that a node did not answer, and why.
type SilentError struct{ Err error }

// Error implements error.
func (e *SilentError) Error() string { return e.Err.Error() }

// Unwrap returns why the node did not answer.
func (e *SilentError) Unwrap() error { return e.Err }

// Ask asks nodes for the caller of ctx, many at once, and returns their answers in the order of the nodes. A node has the
// timeout of p for its answer.
func Ask[Res any](ctx context.Context, p *Peers, nodes []coord.Member, fn func(ctx context.Context, c taskenginev1connect.TaskServiceClient) (Res, error)) []Answer[Res] {
	if len(nodes) == 0 {
		return nil
	}
	return AskWithin(ctx, p, p.config.Timeout, nodes, fn)
}

// AskWithin is Ask for requests that may take another time.
func AskWithin[Res any](ctx context.Context, p *Peers, timeout time.Duration, nodes []coord.Member, fn func(ctx context.Context, c taskenginev1connect.TaskServiceClient) (Res, error)) []Answer[Res] {
	answers := make([]Answer[Res], len(nodes))
	places := make(chan struct{}, maxAtOnce)
	var all sync.WaitGroup
	for i := range nodes {
		answers[i].Node = nodes[i]
		places <- struct{}{}
		all.Go(func() {
			defer func() { <-places }()
			answers[i].Err = p.askOne(ctx, timeout, &nodes[i], func(ctx context.Context, c taskenginev1connect.TaskServiceClient) (err error) {
				answers[i].Res, err = fn(ctx, c)
				return err
			})
		})
	}
	all.Wait()
	return answers
}

// AskOne is Ask for one node.
func (p *Peers) AskOne(ctx context.Context, m *coord.Member, fn func(ctx context.Context, c taskenginev1connect.TaskServiceClient) error) error {
	return p.askOne(ctx, p.config.Timeout, m, fn)
}

func (p *Peers) askOne(ctx context.Context, timeout time.Duration, m *coord.Member, fn func(ctx context.Context, c taskenginev1connect.TaskServiceClient) error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, late(timeout))
	defer cancel()
	return p.Use(ctx, m, func(c taskenginev1connect.TaskServiceClient) error { return fn(ctx, c) })
}

// late returns the error for a node that does not answer in time.
func late(timeout time.Duration) error { return fmt.Errorf("it did not answer within %v", timeout) }

// Use calls fn with a client of a node. An error that the node answers to the request is returned as it is; any other
// error is a [SilentError].
func (p *Peers) Use(ctx context.Context, m *coord.Member, fn func(c taskenginev1connect.TaskServiceClient) error) error {
	c, err := p.client(ctx, m)
	if err == nil {
		err = fn(c)
	}
	if err == nil || isAnswer(err) {
		return err
	}
	p.forget(m)
	var remote *connect.Error
	switch {
	case ctx.Err() != nil:
		err = context.Cause(ctx)
	case errors.As(err, &remote) && remote.Code() == connect.CodeUnimplemented:
		err = fmt.Errorf("its version %s does not have this request", m.Version)
	case errors.As(err, &remote):
		err = errors.New(remote.Message())
	}
	return &SilentError{err}
}

// isAnswer reports whether a node has said with an error what is wrong with the request, or with its object.
func isAnswer(err error) bool {
	if !connect.IsWireError(err) {
		return false
	}
	switch connect.CodeOf(err) {
	case connect.CodeNotFound, connect.CodeInvalidArgument, connect.CodeFailedPrecondition, connect.CodePermissionDenied:
		return true
	}
	return false
}
