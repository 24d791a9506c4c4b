package client

import (
	"context"
	"time"

	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
	"github.com/taskengine/taskengine/server/proto/taskengine/v1/taskenginev1connect"
	"github.com/taskengine/taskengine/task"
)

// Signal is a message to a task, which a handler waits for by [task.WaitFor].
type Signal struct {
	// Task is the task. If it is zero, it is the task of Type with Key and OrderingKey.
	Task                   task.ID
	Type, OrderingKey, Key string

	Name string // at most [task.MaxSignalName] bytes
	Data []byte // for the handler; at most max_payload of the type

	// Keep has a task that does not wait for the signal keep it until it does, or ends. Otherwise it is dropped.
	Keep bool

	// RequestID identifies the signal: a task gets it once, however often it is sent. The zero ID is a new one.
	RequestID task.ID
}

// SignalOutcome is what became of a signal.
type SignalOutcome string

// The values of SignalOutcome.
const (
	SignalWoke     SignalOutcome = "woke"     // the task waited for it, and is ready now
	SignalKept     SignalOutcome = "kept"     // the task keeps it
	SignalRepeated SignalOutcome = "repeated" // the task has got it before
	SignalDropped  SignalOutcome = "dropped"  // the task does not wait for it
	SignalNoRoom   SignalOutcome = "no_room"  // the task does not wait for it, and cannot keep another one
	SignalEnded    SignalOutcome = "ended"    // the task has ended
)

// Signal sends a signal to a task, and returns the task as [Client.Cancel] does. It sends it again when a node does not answer,
// with the same RequestID. If there is no such task, the error wraps [ErrNotFound].
func (c *Client) Signal(ctx context.Context, s Signal) (SignalOutcome, *Task, error) {
	if s.RequestID.IsZero() {
		s.RequestID = c.ids.Next(time.Now())
	}
	req := &taskenginev1.SignalRequest{
		Type: s.Type, Key: s.Key, OrderingKey: s.OrderingKey, Name: s.Name, Data: s.Data, Keep: s.Keep, RequestId: s.RequestID.String(),
	}
	if !s.Task.IsZero() {
		req.Id = s.Task.String()
	}
	res, err := call[taskenginev1.SignalResponse](ctx, c, taskenginev1connect.TaskServiceSignalProcedure, req, true)
	if err != nil {
		return "", nil, err
	}
	t, err := decodeTask(res.GetTask())
	return SignalOutcome(res.GetOutcome()), t, err
}
