package server

import (
	"context"

	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
	"github.com/taskengine/taskengine/task"
)

// named is a request that names a version of a task.
type named interface {
	GetId() string
	GetVersion() uint64
}

// edit applies a change to the task that a request names, if the caller may do so, and returns the task after it.
func (a *API) edit(ctx context.Context, req named, change func(task.Ref) (*task.Task, error)) (*taskenginev1.Task, error) {
	id, err := parseID(req.GetId())
	if err != nil {
		return nil, a.answer(err)
	}
	if err := a.permitTasks(ctx, id); err != nil {
		return nil, a.answer(err)
	}
	t, err := change(task.Ref{ID: id, Version: req.GetVersion()})
	if err != nil {
		return nil, a.answer(err)
	}
	return a.edited(t), nil
}

// edited takes note of a task that a person has changed, and returns its message. The engine calls its observers for
// its own changes only.
func (a *API) edited(t *task.Task) *taskenginev1.Task {
	if a.metrics != nil {
		a.metrics.changed(t)
	}
	if attempt, ended := endedNow(t); ended {
		a.taskLog.Ended(t.ID, attempt.Number)
	}
	return summaryOf(t)
}

// Cancel ends a task as cancelled.
func (a *API) Cancel(ctx context.Context, req *taskenginev1.CancelRequest) (*taskenginev1.CancelResponse, error) {
	if req.GetTree() {
		res, err := a.cancelTree(ctx, req)
		if err != nil {
			return nil, a.answer(err)
		}
		return res, nil
	}
	t, err := a.edit(ctx, req, func(r task.Ref) (*task.Task, error) {
		return a.engine.Cancel(ctx, r, cancelledBy(ctx, req.GetReason()))
	})
	if err != nil {
		return nil, err
	}
	return &taskenginev1.CancelResponse{Task: t}, nil
}

// Resume makes a task ready now.
func (a *API) Resume(ctx context.Context, req *taskenginev1.ResumeRequest) (*taskenginev1.ResumeResponse, error) {
	t, err := a.edit(ctx, req, func(r task.Ref) (*task.Task, error) { return a.engine.Resume(ctx, r) })
	if err != nil {
		return nil, err
	}
	return &taskenginev1.ResumeResponse{Task: t}, nil
}

// Fail ends a task as failed.
func (a *API) Fail(ctx context.Context, req *taskenginev1.FailRequest) (*taskenginev1.FailResponse, error) {
	t, err := a.edit(ctx, req, func(r task.Ref) (*task.Task, error) { return a.engine.Fail(ctx, r, errorOf(ctx, req.GetReason())) })
	if err != nil {
		return nil, err
	}
	return &taskenginev1.FailResponse{Task: t}, nil
}

// Reschedule sets the due time of a task.
func (a *API) Reschedule(ctx context.Context, req *taskenginev1.RescheduleRequest) (*taskenginev1.RescheduleResponse, error) {
	at, err := moment(req.GetAt(), req.GetIn(), a.engine.Now())
	if err == nil && at.IsZero() {
		err = invalid("neither at nor in is given")
	}
	if err != nil {
		return nil, a.answer(err)
	}
	t, err := a.edit(ctx, req, func(r task.Ref) (*task.Task, error) { return a.engine.Reschedule(ctx, r, at) })
	if err != nil {
		return nil, err
	}
	return &taskenginev1.RescheduleResponse{Task: t}, nil
}
