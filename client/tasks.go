package client

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
	"github.com/taskengine/taskengine/server/proto/taskengine/v1/taskenginev1connect"
	"github.com/taskengine/taskengine/task"
)

// pollFor is how long a node waits before it answers that tasks have not ended.
const pollFor = 20 * time.Second

// TaskFilter selects tasks. The zero value selects all.
type TaskFilter struct {
	Types  []string // none: all
	States []State  // none: all
	Key    string   // only tasks with this key, with any ordering key; empty: all
	Where  string   // only tasks that this filter selects, such as: error~"503" since=2h; empty: all. See the documentation of the command line
}

// Get returns a task, with its payload and result. The error wraps [ErrNotFound] if there is none with the id.
func (c *Client) Get(ctx context.Context, id task.ID) (*Task, error) {
	return c.get(ctx, &taskenginev1.GetRequest{Id: id.String()})
}

// Find returns the task of a type that has a key, with its payload and result, or an error that wraps [ErrNotFound]. Of
// the options, only [OrderingKey] has a meaning: the key is that of a task with this ordering key, or without one.
func (c *Client) Find(ctx context.Context, typ, key string, options ...Option) (*Task, error) {
	var of Request
	for _, set := range options {
		set(&of)
	}
	return c.get(ctx, &taskenginev1.GetRequest{Type: typ, Key: key, OrderingKey: of.OrderingKey})
}

func (c *Client) get(ctx context.Context, req *taskenginev1.GetRequest) (*Task, error) {
	res, err := call[taskenginev1.GetResponse](ctx, c, taskenginev1connect.TaskServiceGetProcedure, req, true)
	if err != nil {
		return nil, err
	}
	return decodeTask(res.GetTask())
}

// Tasks returns tasks without payload, result and checkpoint, the newest first. It ends after an error. Each page is a call with a
// time limit of its own, if ctx has none.
func (c *Client) Tasks(ctx context.Context, f TaskFilter) iter.Seq2[*Task, error] {
	return func(yield func(*Task, error) bool) {
		req := &taskenginev1.ListRequest{Types: f.Types, States: f.states(), Key: f.Key, Where: f.Where}
		for {
			res, err := call[taskenginev1.ListResponse](ctx, c, taskenginev1connect.TaskServiceListProcedure, req, true)
			if err != nil {
				yield(nil, err)
				return
			}
			for _, m := range res.GetTasks() {
				if t, err := decodeTask(m); !yield(t, err) || err != nil {
					return
				}
			}
			if req.PageToken = res.GetNextPageToken(); req.PageToken == "" {
				return
			}
			req.Where = res.GetWhere() // durations in it count from the first page
		}
	}
}

// states returns the states as the API writes them.
func (f TaskFilter) states() []string {
	return all(f.States, func(s State) string { return string(s) })
}

// Count returns the number of tasks by type and state, without zeros. The filter has no Key. If Where selects among more tasks than a node reads
// to count them, the error wraps [ErrInvalid].
func (c *Client) Count(ctx context.Context, f TaskFilter) ([]StateCount, error) {
	if f.Key != "" {
		return nil, newError("", codes.InvalidArgument, "tasks are not counted by their Key; put key=... in Where", "")
	}
	req := &taskenginev1.CountRequest{Types: f.Types, States: f.states(), Where: f.Where}
	res, err := call[taskenginev1.CountResponse](ctx, c, taskenginev1connect.TaskServiceCountProcedure, req, true)
	if err != nil {
		return nil, err
	}
	if res.GetPartial() {
		return nil, newError("", codes.InvalidArgument, "more tasks than a node reads may be selected: name states, a type or a time in Where", "")
	}
	return all(res.GetCounts(), stateCountOf), nil
}

// Wait returns a task when it has ended: it is done, error, failed or cancelled. It waits until ctx ends, also while no
// node answers. It returns [ErrNotFound] for a task that does not exist or was removed after its retention.
func (c *Client) Wait(ctx context.Context, id task.ID) (*Task, error) {
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

// NotDoneError is the error of a task that ended without being done.
type NotDoneError struct {
	ID     task.ID
	State  State  // of the task: [StateError], [StateFailed] or [StateCancelled]
	Reason string // why
}

// Error implements error.
func (e *NotDoneError) Error() string {
	return fmt.Sprintf("taskengine: task %s is %s: %s", e.ID, e.State, e.Reason)
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
// the result as it is. nil ignores the result. It returns a [*NotDoneError] if the task ended without being done, and a
// [*ResultRemovedError] if the task is done, and v is not nil but the result was removed.
func (c *Client) Result(ctx context.Context, id task.ID, v any) error {
	t, err := c.Wait(ctx, id)
	if err != nil {
		return err
	}
	if t.State != StateDone {
		return &NotDoneError{id, t.State, t.Error}
	}
	if v == nil {
		return nil
	}
	return t.DecodeResult(v)
}

// change collects the options of a change.
type change struct{ version uint64 }

// ChangeOption sets a part of the request to change a task.
type ChangeOption func(*change)

// AtVersion restricts a change to one version of a task: [Task.Version] of a task that was read before. If the task is at another
// one, nothing is changed, and the error wraps [ErrConflict]. 0 is any version.
func AtVersion(version uint64) ChangeOption { return func(c *change) { c.version = version } }

// versionOf returns the version that options ask for; 0 is any.
func versionOf(options []ChangeOption) uint64 {
	var c change
	for _, set := range options {
		set(&c)
	}
	return c.version
}

// Cancel ends a task as cancelled, and returns it after the change, without payload, result and checkpoint. If it is running, its
// handler is stopped.
func (c *Client) Cancel(ctx context.Context, id task.ID, reason string, options ...ChangeOption) (*Task, error) {
	req := &taskenginev1.CancelRequest{Id: id.String(), Reason: reason, Version: versionOf(options)}
	res, err := call[taskenginev1.CancelResponse](ctx, c, taskenginev1connect.TaskServiceCancelProcedure, req, false)
	if err != nil {
		return nil, err
	}
	return decodeTask(res.GetTask())
}

// CancelledTree is the outcome for a task and the tasks below it.
type CancelledTree struct {
	Task      *Task  // after the change, without payload, result and checkpoint
	Cancelled uint64 // how many tasks were cancelled; a request that gave no answer is not counted

	// Missing is how many children were not found although they have not ended: they are on their way to another database. If
	// there are any, CancelTree should be called again.
	Missing uint64
}

// CancelTree cancels a task, and all tasks below it that have not ended, whether the task has ended or not. It does so until ctx ends.
// After an error it may be called again, and goes on with the rest.
func (c *Client) CancelTree(ctx context.Context, id task.ID, reason string) (*CancelledTree, error) {
	req := &taskenginev1.CancelRequest{Id: id.String(), Reason: reason, Tree: true}
	var tree CancelledTree
	for {
		res, err := call[taskenginev1.CancelResponse](ctx, c, taskenginev1connect.TaskServiceCancelProcedure, req, true)
		if err != nil {
			return nil, err
		}
		tree.Cancelled += res.GetCancelled()
		if res.GetMore() {
			continue
		}
		tree.Missing = res.GetMissing()
		tree.Task, err = decodeTask(res.GetTask())
		return &tree, err
	}
}

// TreeTask is a task of a tree.
type TreeTask struct {
	Task  *Task  // without payload, result and checkpoint, but with its children
	Depth uint32 // how many tasks of the tree are above it
}

// Tree returns a page of a task and the tasks below it, at most limit, which is at most 1000; 0 stands for 100. A task comes before its
// children, which come by their names and indexes. pageToken is that of the page before, and empty for the first one; next is
// empty at the end.
func (c *Client) Tree(ctx context.Context, id task.ID, limit uint32, pageToken string) (tasks []TreeTask, next string, err error) {
	req := &taskenginev1.TreeRequest{Id: id.String(), Limit: limit, PageToken: pageToken}
	res, err := call[taskenginev1.TreeResponse](ctx, c, taskenginev1connect.TaskServiceTreeProcedure, req, true)
	if err != nil {
		return nil, "", err
	}
	for _, m := range res.GetTasks() {
		t, err := decodeTask(m.GetTask())
		if err != nil {
			return nil, "", err
		}
		tasks = append(tasks, TreeTask{t, m.GetDepth()})
	}
	return tasks, res.GetNextPageToken(), nil
}

// Fail ends a task as failed, and returns it as [Client.Cancel] does. For a task in the state error it acknowledges the error.
func (c *Client) Fail(ctx context.Context, id task.ID, reason string, options ...ChangeOption) (*Task, error) {
	req := &taskenginev1.FailRequest{Id: id.String(), Reason: reason, Version: versionOf(options)}
	res, err := call[taskenginev1.FailResponse](ctx, c, taskenginev1connect.TaskServiceFailProcedure, req, false)
	if err != nil {
		return nil, err
	}
	return decodeTask(res.GetTask())
}

// Resume makes a task ready now that waits, or that ended without being done, and returns it as [Client.Cancel] does.
func (c *Client) Resume(ctx context.Context, id task.ID, options ...ChangeOption) (*Task, error) {
	req := &taskenginev1.ResumeRequest{Id: id.String(), Version: versionOf(options)}
	res, err := call[taskenginev1.ResumeResponse](ctx, c, taskenginev1connect.TaskServiceResumeProcedure, req, false)
	if err != nil {
		return nil, err
	}
	return decodeTask(res.GetTask())
}

// Reschedule sets the due time of a task that is not running, and returns the task as [Client.Cancel] does.
func (c *Client) Reschedule(ctx context.Context, id task.ID, at time.Time, options ...ChangeOption) (*Task, error) {
	req := &taskenginev1.RescheduleRequest{
		Id: id.String(), Version: versionOf(options), Time: &taskenginev1.RescheduleRequest_At{At: timestamppb.New(at)},
	}
	res, err := call[taskenginev1.RescheduleResponse](ctx, c, taskenginev1connect.TaskServiceRescheduleProcedure, req, false)
	if err != nil {
		return nil, err
	}
	return decodeTask(res.GetTask())
}

// Why returns the reasons that keep a task from running, the nearest first.
func (c *Client) Why(ctx context.Context, id task.ID) ([]Reason, error) {
	res, err := call[taskenginev1.WhyResponse](ctx, c, taskenginev1connect.TaskServiceWhyProcedure, &taskenginev1.WhyRequest{Id: id.String()}, true)
	if err != nil {
		return nil, err
	}
	var d decoder
	reasons := all(res.GetReasons(), d.reason)
	if d.err != nil {
		return nil, d.err
	}
	return reasons, nil
}

// WaitHistory returns how long a task has waited for what. See [WaitHistory] for what the node does not know.
func (c *Client) WaitHistory(ctx context.Context, id task.ID) (*WaitHistory, error) {
	res, err := call[taskenginev1.WhyResponse](ctx, c, taskenginev1connect.TaskServiceWhyProcedure, &taskenginev1.WhyRequest{Id: id.String(), History: true}, true)
	if err != nil {
		return nil, err
	}
	h := &WaitHistory{Node: res.GetNode(), NotedSince: timeOf(res.GetNotedSince()), Silent: all(res.GetSilent(), silentOf)}
	for _, w := range res.GetWaits() {
		h.Waits = append(h.Waits, Wait{
			Code: ReasonCode(w.GetCode()), Text: w.GetText(), Limit: w.GetLimit(), Value: w.GetValue(),
			Total: w.GetTotal().AsDuration(), From: timeOf(w.GetFrom()), Until: timeOf(w.GetUntil()),
		})
	}
	return h, nil
}

// decodeTask returns no task with an error.
func decodeTask(m *taskenginev1.Task) (*Task, error) {
	var d decoder
	t := d.task(m)
	if d.err != nil {
		return nil, d.err
	}
	return t, nil
}
