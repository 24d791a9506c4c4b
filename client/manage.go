package client

import (
	"context"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
	"github.com/taskengine/taskengine/server/proto/taskengine/v1/taskenginev1connect"
)

// Limits returns all limits as they are in force.
func (c *Client) Limits(ctx context.Context) ([]*taskenginev1.Limit, error) {
	res, err := call[taskenginev1.ListLimitsResponse](ctx, c, taskenginev1connect.TaskServiceListLimitsProcedure, &taskenginev1.ListLimitsRequest{}, true)
	return res.GetLimits(), err
}

// Limit returns a limit, as a whole if value is empty, or for one of its values.
func (c *Client) Limit(ctx context.Context, name, value string) (*taskenginev1.Limit, error) {
	res, err := call[taskenginev1.GetLimitResponse](ctx, c, taskenginev1connect.TaskServiceGetLimitProcedure, &taskenginev1.GetLimitRequest{Name: name, Value: value}, true)
	return res.GetLimit(), err
}

// SetLimit changes a limit on all nodes until it is unset.
func (c *Client) SetLimit(ctx context.Context, req *taskenginev1.SetLimitRequest) (*taskenginev1.Limit, error) {
	res, err := call[taskenginev1.SetLimitResponse](ctx, c, taskenginev1connect.TaskServiceSetLimitProcedure, req, req.IfVersion == nil)
	return res.GetLimit(), err
}

// UnsetLimit removes what SetLimit has set.
func (c *Client) UnsetLimit(ctx context.Context, req *taskenginev1.UnsetLimitRequest) (*taskenginev1.Limit, error) {
	res, err := call[taskenginev1.UnsetLimitResponse](ctx, c, taskenginev1connect.TaskServiceUnsetLimitProcedure, req, false)
	return res.GetLimit(), err
}

// Schedules returns a page of schedules, and the token of the next page, which is empty at the end. The first page has
// the empty token.
func (c *Client) Schedules(ctx context.Context, page string) ([]*taskenginev1.Schedule, string, error) {
	res, err := call[taskenginev1.ListSchedulesResponse](ctx, c, taskenginev1connect.TaskServiceListSchedulesProcedure, &taskenginev1.ListSchedulesRequest{PageToken: page}, true)
	return res.GetSchedules(), res.GetNextPageToken(), err
}

// Schedule returns a schedule.
func (c *Client) Schedule(ctx context.Context, name string) (*taskenginev1.Schedule, error) {
	res, err := call[taskenginev1.GetScheduleResponse](ctx, c, taskenginev1connect.TaskServiceGetScheduleProcedure, &taskenginev1.GetScheduleRequest{Name: name}, true)
	return res.GetSchedule(), err
}

// ApplySchedule makes a schedule be as a definition says. It returns created, updated or unchanged; a repetition of a
// call whose answer was lost returns unchanged.
func (c *Client) ApplySchedule(ctx context.Context, name string, d *taskenginev1.ScheduleDefinition) (string, error) {
	res, err := call[taskenginev1.ApplyScheduleResponse](ctx, c, taskenginev1connect.TaskServiceApplyScheduleProcedure, &taskenginev1.ApplyScheduleRequest{Name: name, Definition: d}, true)
	return res.GetOutcome(), err
}

// DeleteSchedule ends a schedule. Tasks that it has added are not affected.
func (c *Client) DeleteSchedule(ctx context.Context, name string) error {
	_, err := call[taskenginev1.DeleteScheduleResponse](ctx, c, taskenginev1connect.TaskServiceDeleteScheduleProcedure, &taskenginev1.DeleteScheduleRequest{Name: name}, false)
	return err
}

// PauseSchedule stops a schedule from firing until ResumeSchedule.
func (c *Client) PauseSchedule(ctx context.Context, name, reason string) error {
	_, err := call[taskenginev1.PauseScheduleResponse](ctx, c, taskenginev1connect.TaskServicePauseScheduleProcedure, &taskenginev1.PauseScheduleRequest{Name: name, Reason: reason}, true)
	return err
}

// ResumeSchedule ends a pause.
func (c *Client) ResumeSchedule(ctx context.Context, name string) error {
	_, err := call[taskenginev1.ResumeScheduleResponse](ctx, c, taskenginev1connect.TaskServiceResumeScheduleProcedure, &taskenginev1.ResumeScheduleRequest{Name: name}, true)
	return err
}

// TriggerSchedule has a schedule add a task now, and returns the id of the task. It is not repeated: each call adds
// another task.
func (c *Client) TriggerSchedule(ctx context.Context, name string) (string, error) {
	res, err := call[taskenginev1.TriggerScheduleResponse](ctx, c, taskenginev1connect.TaskServiceTriggerScheduleProcedure, &taskenginev1.TriggerScheduleRequest{Name: name}, false)
	return res.GetTaskId(), err
}

// PreviewSchedule returns up to count (1 to 1000) next times of a schedule, or of a definition that is not stored unless it is
// nil. The first time that may be among them is from; the zero time is now.
func (c *Client) PreviewSchedule(
	ctx context.Context, name string, d *taskenginev1.ScheduleDefinition, from time.Time, count int,
) ([]*taskenginev1.ScheduleTime, error) {
	req := &taskenginev1.PreviewScheduleRequest{Name: name, Definition: d, Count: uint32(max(0, count))}
	if !from.IsZero() {
		req.From = timestamppb.New(from)
	}
	res, err := call[taskenginev1.PreviewScheduleResponse](ctx, c, taskenginev1connect.TaskServicePreviewScheduleProcedure, req, true)
	return res.GetTimes(), err
}

// BackfillSchedule has a schedule add tasks for its times between two times, both included, and returns how many. With dryRun
// it only counts them. Without, it is not repeated: each call adds other tasks.
func (c *Client) BackfillSchedule(ctx context.Context, name string, from, to time.Time, dryRun bool) (uint64, error) {
	req := &taskenginev1.BackfillScheduleRequest{Name: name, From: timestamppb.New(from), To: timestamppb.New(to), DryRun: dryRun}
	res, err := call[taskenginev1.BackfillScheduleResponse](ctx, c, taskenginev1connect.TaskServiceBackfillScheduleProcedure, req, dryRun)
	return res.GetTasks(), err
}
