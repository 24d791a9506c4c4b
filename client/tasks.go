package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/taskengine/taskengine/engine/task"
	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
	"github.com/taskengine/taskengine/server/proto/taskengine/v1/taskenginev1connect"
)

// pollFor is how long a node waits before it answers that tasks have not ended.
const pollFor = 20 * time.Second

// Filter selects tasks.
type Filter struct {
	Types  []string // none: all
	States []string // none: all
	Key    string   // only tasks with this key, whatever their ordering keys are; empty: all
}

// Get returns a task, with its payload and result.
func (c *Client) Get(ctx context.Context, id task.ID) (*taskenginev1.Task, error) {
	res, err := call[taskenginev1.GetResponse](ctx, c, taskenginev1connect.TaskServiceGetProcedure, &taskenginev1.GetRequest{Id: id.String()}, true)
	return res.GetTask(), err
}

// Find returns the task of a type that has a key, with its payload and result, or an error that wraps [ErrNotFound]. Of
// the options, only [OrderingKey] has a meaning: the key is that of a task with this ordering key, or without one.
func (c *Client) Find(ctx context.Context, typ, key string, options ...Option) (*taskenginev1.Task, error) {
	var of taskenginev1.NewTask
	for _, set := range options {
		set(&of)
	}
	req := &taskenginev1.GetRequest{Type: typ, Key: key, OrderingKey: of.GetOrderingKey()}
	res, err := call[taskenginev1.GetResponse](ctx, c, taskenginev1connect.TaskServiceGetProcedure, req, true)
	return res.GetTask(), err
}

// List returns tasks without payload and result, the newest first. It ends after an error. Each page is a call with a
// time limit of its own, if ctx has none.
func (c *Client) List(ctx context.Context, f Filter) iter.Seq2[*taskenginev1.Task, error] {
	return func(yield func(*taskenginev1.Task, error) bool) {
		req := &taskenginev1.ListRequest{Types: f.Types, States: f.States, Key: f.Key}
		for {
			res, err := call[taskenginev1.ListResponse](ctx, c, taskenginev1connect.TaskServiceListProcedure, req, true)
			if err != nil {
				yield(nil, err)
				return
			}
			for _, t := range res.GetTasks() {
				if !yield(t, nil) {
					return
				}
			}
			if req.PageToken = res.GetNextPageToken(); req.PageToken == "" {
				return
			}
		}
	}
}

// Count is how many tasks of a type are in a state.
type Count struct {
	State string
	Type  string
	Tasks int64
}

// Count returns how many tasks there are, by state and type; those of zero are left out. The filter has no key.
func (c *Client) Count(ctx context.Context, f Filter) ([]Count, error) {
	if f.Key != "" {
		return nil, newError("", codes.InvalidArgument, "tasks are counted by state and type; list those with a key", "")
	}
	req := &taskenginev1.CountRequest{Types: f.Types, States: f.States}
	res, err := call[taskenginev1.CountResponse](ctx, c, taskenginev1connect.TaskServiceCountProcedure, req, true)
	if err != nil {
		return nil, err
	}
	counts := make([]Count, len(res.GetCounts()))
	for i, n := range res.GetCounts() {
		counts[i] = Count{State: n.GetState(), Type: n.GetType(), Tasks: n.GetCount()}
	}
	return counts, nil
}

// Wait returns a task when it has ended: it is done, error, failed or cancelled. It waits until ctx ends, also while no
// node answers. It returns [ErrNotFound] for a task that does not exist, or whose retention is over.
func (c *Client) Wait(ctx context.Context, id task.ID) (*taskenginev1.Task, error) {
	req := &taskenginev1.WaitRequest{Ids: []string{id.String()}, Timeout: durationpb.New(pollFor)}
	for {
		poll, cancel := context.WithTimeout(ctx, pollFor+c.options.Timeout)
		res, err := call[taskenginev1.WaitResponse](poll, c, taskenginev1connect.TaskServiceWaitProcedure, req, true)
		isOver := poll.Err() != nil && ctx.Err() == nil
		cancel()
		switch {
		case err != nil && (errors.Is(err, ErrUnavailable) || isOver) && !errors.Is(err, ErrClosed) && ctx.Err() == nil:
		case err != nil:
			return nil, err
		case res.GetSettled():
			return c.Get(ctx, id)
		}
	}
}

// EndedError is the error of a task that ended without being done.
type EndedError struct {
	ID      task.ID
	State   string // error, failed or cancelled
	Message string // why
}

// Error implements error.
func (e *EndedError) Error() string {
	return fmt.Sprintf("taskengine: task %s is %s: %s", e.ID, e.State, e.Message)
}

// ResultRemovedError is the error of a task that is done, if its result was removed: the task is a tombstone. Its type has
// unique.remember, which says for how long its key is remembered, and retention.done, which says for how long its result
// is kept.
type ResultRemovedError struct{ ID task.ID }

// Error implements error.
func (e *ResultRemovedError) Error() string {
	return fmt.Sprintf("taskengine: task %s is done, and its result was removed after the retention of its type", e.ID)
}

// Result waits for a task, and decodes its result into v, which json.Unmarshal takes, or is a *[]byte or *[Raw] for
// the result as it is. nil ignores the result. It returns an [*EndedError] if the task ended without being done, and a
// [*ResultRemovedError] if the task is done, and v is not nil but the result was removed.
func (c *Client) Result(ctx context.Context, id task.ID, v any) error {
	t, err := c.Wait(ctx, id)
	if err != nil {
		return err
	}
	if t.GetState() != "done" {
		return &EndedError{id, t.GetState(), t.GetError()}
	}
	if t.GetTombstone() && v != nil {
		return &ResultRemovedError{id}
	}
	switch v := v.(type) {
	case nil:
	case *Raw:
		*v = t.GetResult()
	case *[]byte:
		*v = t.GetResult()
	default:
		if err := json.Unmarshal(t.GetResult(), v); err != nil {
			return fmt.Errorf("taskengine: the result of task %s: %w", id, err)
		}
	}
	return nil
}

// change is what the options of a change set.
type change struct{ version uint64 }

// ChangeOption sets a part of the request to change a task.
type ChangeOption func(*change)

// AtVersion has a task changed only if it is at a version, such as that of the task that [Client.Get] has returned. Otherwise
// the change returns [ErrConflict].
func AtVersion(version uint64) ChangeOption { return func(c *change) { c.version = version } }

// versionOf returns the version that options ask for; 0 is any.
func versionOf(options []ChangeOption) uint64 {
	var c change
	for _, set := range options {
		set(&c)
	}
	return c.version
}

// Cancel ends a task as cancelled. If it is running, its handler is stopped.
func (c *Client) Cancel(ctx context.Context, id task.ID, reason string, options ...ChangeOption) error {
	req := &taskenginev1.CancelRequest{Id: id.String(), Reason: reason, Version: versionOf(options)}
	_, err := call[taskenginev1.CancelResponse](ctx, c, taskenginev1connect.TaskServiceCancelProcedure, req, false)
	return err
}

// Fail ends a task as failed. For a task in the state error it acknowledges the error.
func (c *Client) Fail(ctx context.Context, id task.ID, reason string, options ...ChangeOption) error {
	req := &taskenginev1.FailRequest{Id: id.String(), Reason: reason, Version: versionOf(options)}
	_, err := call[taskenginev1.FailResponse](ctx, c, taskenginev1connect.TaskServiceFailProcedure, req, false)
	return err
}

// Resume makes a task ready now that waits, or that ended without being done.
func (c *Client) Resume(ctx context.Context, id task.ID, options ...ChangeOption) error {
	req := &taskenginev1.ResumeRequest{Id: id.String(), Version: versionOf(options)}
	_, err := call[taskenginev1.ResumeResponse](ctx, c, taskenginev1connect.TaskServiceResumeProcedure, req, false)
	return err
}

// Reschedule sets the time at which a task is due that is not running.
func (c *Client) Reschedule(ctx context.Context, id task.ID, at time.Time, options ...ChangeOption) error {
	req := &taskenginev1.RescheduleRequest{
		Id: id.String(), Version: versionOf(options), Time: &taskenginev1.RescheduleRequest_At{At: timestamppb.New(at)},
	}
	_, err := call[taskenginev1.RescheduleResponse](ctx, c, taskenginev1connect.TaskServiceRescheduleProcedure, req, false)
	return err
}

// Why returns what keeps a task from running, the nearest reason first.
func (c *Client) Why(ctx context.Context, id task.ID) ([]*taskenginev1.Reason, error) {
	res, err := call[taskenginev1.WhyResponse](ctx, c, taskenginev1connect.TaskServiceWhyProcedure, &taskenginev1.WhyRequest{Id: id.String()}, true)
	return res.GetReasons(), err
}
