package client

import (
	"context"
	"fmt"
	"iter"
	"time"

	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
	"github.com/taskengine/taskengine/server/proto/taskengine/v1/taskenginev1connect"
)

// OrderingKeyFilter selects ordering keys. The zero value selects all.
type OrderingKeyFilter struct {
	States []State // of their heads; empty: any, also of those without a head
	Behind bool    // only keys of which tasks wait behind others
}

// OrderingKeyState is an ordering key of which tasks run or wait.
type OrderingKeyState struct {
	Key             string
	Head            *Task // that runs or is to run next; nil if the first task of the key waits for its time
	Behind          int64 // how many tasks are behind it, at most 1000
	BehindTruncated bool  // there are more
	OldestReadyAt   time.Time
}

// OrderingKeys returns ordering keys, in their order. It ends after an error. Each page is a call with a time limit of its own, if ctx has
// none.
func (c *Client) OrderingKeys(ctx context.Context, f OrderingKeyFilter) iter.Seq2[*OrderingKeyState, error] {
	return func(yield func(*OrderingKeyState, error) bool) {
		req := &taskenginev1.ListKeysRequest{States: all(f.States, func(s State) string { return string(s) }), Behind: f.Behind}
		for {
			res, err := call[taskenginev1.ListKeysResponse](ctx, c, taskenginev1connect.TaskServiceListKeysProcedure, req, true)
			if err != nil {
				yield(nil, err)
				return
			}
			for _, m := range res.GetKeys() {
				var d decoder
				key := d.orderingKey(m)
				if d.err != nil {
					yield(nil, fmt.Errorf("an ordering key: %w", d.err))
					return
				}
				if !yield(key, nil) {
					return
				}
			}
			if req.PageToken = res.GetNextPageToken(); req.PageToken == "" {
				return
			}
		}
	}
}

// OrderingKeyTasks returns the tasks of an ordering key that run or wait, without payload and result, in the order in which they run. The
// first is the head, unless the first task of the key waits for its time. The error wraps [ErrNotFound] if there is no task. Each page is a call
// with a time limit of its own, if ctx has none.
func (c *Client) OrderingKeyTasks(ctx context.Context, key string) iter.Seq2[*Task, error] {
	return func(yield func(*Task, error) bool) {
		req := &taskenginev1.GetKeyRequest{Key: key}
		for {
			res, err := call[taskenginev1.GetKeyResponse](ctx, c, taskenginev1connect.TaskServiceGetKeyProcedure, req, true)
			if err != nil {
				yield(nil, err)
				return
			}
			ms := res.GetBehind()
			if head := res.GetHead(); head != nil && req.GetPageToken() == "" {
				ms = append([]*taskenginev1.Task{head}, ms...)
			}
			for _, m := range ms {
				if t, err := decodeTask(m); !yield(t, err) || err != nil {
					return
				}
			}
			if req.PageToken = res.GetNextPageToken(); req.PageToken == "" {
				return
			}
		}
	}
}

// ResumeOrderingKey resumes the head of an ordering key that is in the state error and stops the key, and returns it. The error wraps
// [ErrNotAllowed] if the head is in another state.
func (c *Client) ResumeOrderingKey(ctx context.Context, key string) (*Task, error) {
	res, err := call[taskenginev1.ResumeKeyResponse](ctx, c, taskenginev1connect.TaskServiceResumeKeyProcedure, &taskenginev1.ResumeKeyRequest{Key: key}, false)
	if err != nil {
		return nil, err
	}
	return decodeTask(res.GetTask())
}

// SkipOrderingKey ends the head of an ordering key that is in the state error as failed, so that the next task of the key runs, and returns
// the head. The error wraps [ErrNotAllowed] if the head is in another state.
func (c *Client) SkipOrderingKey(ctx context.Context, key, reason string) (*Task, error) {
	res, err := call[taskenginev1.SkipKeyResponse](ctx, c, taskenginev1connect.TaskServiceSkipKeyProcedure, &taskenginev1.SkipKeyRequest{Key: key, Reason: reason}, false)
	if err != nil {
		return nil, err
	}
	return decodeTask(res.GetTask())
}

func (d *decoder) orderingKey(m *taskenginev1.OrderingKey) *OrderingKeyState {
	k := &OrderingKeyState{Key: m.GetKey(), Behind: m.GetBehind(), BehindTruncated: m.GetBehindTruncated(), OldestReadyAt: timeOf(m.GetOldestReadyAt())}
	if m.GetHead() != nil {
		k.Head = d.task(m.GetHead())
	}
	return k
}
