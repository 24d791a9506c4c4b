package client

import (
	"context"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
	"github.com/taskengine/taskengine/server/proto/taskengine/v1/taskenginev1connect"
	"github.com/taskengine/taskengine/task"
)

// Schedule returns a schedule. The error wraps [ErrNotFound] if there is none with the name.
func (c *Client) Schedule(ctx context.Context, name string) (*Schedule, error) {
	res, err := call[taskenginev1.GetScheduleResponse](ctx, c, taskenginev1connect.TaskServiceGetScheduleProcedure, &taskenginev1.GetScheduleRequest{Name: name}, true)
	if err != nil {
		return nil, err
	}
	return decodeSchedule(res.GetSchedule())
}

// ApplySchedule creates a schedule, or changes its definition. The new definition fires for times after the call. It does not
// end a pause. A repeated call, for instance after a lost answer, returns [ScheduleUnchanged].
func (c *Client) ApplySchedule(ctx context.Context, name string, d ScheduleDefinition) (ScheduleOutcome, error) {
	req := &taskenginev1.ApplyScheduleRequest{Name: name, Definition: definitionMessage(&d)}
	res, err := call[taskenginev1.ApplyScheduleResponse](ctx, c, taskenginev1connect.TaskServiceApplyScheduleProcedure, req, true)
	return ScheduleOutcome(res.GetOutcome()), err
}

// DeleteSchedule ends a schedule. Tasks that it has added are not affected.
func (c *Client) DeleteSchedule(ctx context.Context, name string) error {
	_, err := call[taskenginev1.DeleteScheduleResponse](ctx, c, taskenginev1connect.TaskServiceDeleteScheduleProcedure, &taskenginev1.DeleteScheduleRequest{Name: name}, false)
	return err
}

// PauseSchedule stops a schedule from firing until ResumeSchedule, and returns it after the change. Times within the pause are
// left out. The reason is shown to users, and has at most 1000 bytes.
func (c *Client) PauseSchedule(ctx context.Context, name, reason string) (*Schedule, error) {
	req := &taskenginev1.PauseScheduleRequest{Name: name, Reason: reason}
	res, err := call[taskenginev1.PauseScheduleResponse](ctx, c, taskenginev1connect.TaskServicePauseScheduleProcedure, req, true)
	if err != nil {
		return nil, err
	}
	return decodeSchedule(res.GetSchedule())
}

// ResumeSchedule ends a pause, and returns the schedule after the change.
func (c *Client) ResumeSchedule(ctx context.Context, name string) (*Schedule, error) {
	req := &taskenginev1.ResumeScheduleRequest{Name: name}
	res, err := call[taskenginev1.ResumeScheduleResponse](ctx, c, taskenginev1connect.TaskServiceResumeScheduleProcedure, req, true)
	if err != nil {
		return nil, err
	}
	return decodeSchedule(res.GetSchedule())
}

// TriggerSchedule orders one task of a schedule now, and returns its id. The task is added as soon as the schedule runs. It is
// not repeated: each call adds another task.
func (c *Client) TriggerSchedule(ctx context.Context, name string) (task.ID, error) {
	req := &taskenginev1.TriggerScheduleRequest{Name: name}
	res, err := call[taskenginev1.TriggerScheduleResponse](ctx, c, taskenginev1connect.TaskServiceTriggerScheduleProcedure, req, false)
	if err != nil {
		return task.ID{}, err
	}
	var d decoder
	return d.id(res.GetTaskId()), d.err
}

// PreviewSchedule returns up to count (1 to 1000) next times of a schedule, or of a definition that is not stored unless it is
// nil. The first time that may be among them is from; the zero time is now.
func (c *Client) PreviewSchedule(ctx context.Context, name string, d *ScheduleDefinition, from time.Time, count int) ([]ScheduleTime, error) {
	req := &taskenginev1.PreviewScheduleRequest{Name: name, From: stamp(from), Count: uint32(max(0, count))}
	if d != nil {
		req.Definition = definitionMessage(d)
	}
	res, err := call[taskenginev1.PreviewScheduleResponse](ctx, c, taskenginev1connect.TaskServicePreviewScheduleProcedure, req, true)
	if err != nil {
		return nil, err
	}
	return all(res.GetTimes(), scheduleTimeOf), nil
}

// BackfillSchedule orders the tasks of a schedule for its times between two times, both included, and returns their number. With dryRun
// it only counts them. Without, it is not repeated: each call adds other tasks. More than 50000 times are refused.
func (c *Client) BackfillSchedule(ctx context.Context, name string, from, to time.Time, dryRun bool) (uint64, error) {
	req := &taskenginev1.BackfillScheduleRequest{Name: name, From: timestamppb.New(from), To: timestamppb.New(to), DryRun: dryRun}
	res, err := call[taskenginev1.BackfillScheduleResponse](ctx, c, taskenginev1connect.TaskServiceBackfillScheduleProcedure, req, dryRun)
	return res.GetTasks(), err
}

// decodeSchedule returns no schedule with an error.
func decodeSchedule(m *taskenginev1.Schedule) (*Schedule, error) {
	var d decoder
	s := d.schedule(m)
	if d.err != nil {
		return nil, d.err
	}
	return s, nil
}
