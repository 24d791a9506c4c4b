package server

import (
	"cmp"
	"context"
	"strings"
	"time"

	"github.com/taskengine/taskengine/schedule"
	"github.com/taskengine/taskengine/schedule/scheduler"
	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
)

// Limits of requests about schedules.
const (
	MaxPreview  = 1000   // times in one preview
	MaxBackfill = 50_000 // times in one backfill
	MaxApply    = 100    // schedules in one request: as many as an audit line has

	defaultPreview = 10
	maxReason      = 1000 // bytes of the reason of a pause
)

// ListSchedules returns a page of schedules.
func (a *API) ListSchedules(ctx context.Context, req *taskenginev1.ListSchedulesRequest) (*taskenginev1.ListSchedulesResponse, error) {
	if req.GetLimit() > MaxList {
		return nil, a.answer(invalid("limit is %d, of %d allowed", req.GetLimit(), MaxList))
	}
	if err := checkScheduleRange(req.GetPrefix(), req.GetPageToken()); err != nil {
		return nil, a.answer(err)
	}
	q := scheduler.Query{Prefix: req.GetPrefix(), Paused: req.GetPaused(), Failing: req.GetFailing()}
	all, next, err := a.schedules.List(ctx, q, req.GetPageToken(), cmp.Or(int(req.GetLimit()), defaultList))
	if err != nil {
		return nil, a.answer(err)
	}
	res := &taskenginev1.ListSchedulesResponse{NextPageToken: next}
	for _, s := range all {
		m := a.scheduleOf(s)
		m.Definition.Task.Payload, m.Waiting, m.Running = "", nil, nil
		res.Schedules = append(res.Schedules, m)
	}
	return res, nil
}

// checkScheduleRange returns an error if a prefix cannot begin the name of a schedule, or a token is not one of a response.
func checkScheduleRange(prefix, token string) error {
	if prefix != "" {
		if err := schedule.CheckName(prefix); err != nil {
			return invalid("prefix: %w", err)
		}
	}
	if token != "" && (schedule.CheckName(token) != nil || !strings.HasPrefix(token, prefix)) {
		return invalid("page_token is not one of an earlier response")
	}
	return nil
}

// GetSchedule returns one schedule.
func (a *API) GetSchedule(ctx context.Context, req *taskenginev1.GetScheduleRequest) (*taskenginev1.GetScheduleResponse, error) {
	m, err := a.schedule(ctx, req.GetName())
	if err != nil {
		return nil, err
	}
	return &taskenginev1.GetScheduleResponse{Schedule: m}, nil
}

// schedule returns the message of the schedule with a name.
func (a *API) schedule(ctx context.Context, name string) (*taskenginev1.Schedule, error) {
	s, err := a.schedules.Get(ctx, name)
	if err != nil {
		return nil, a.answer(err)
	}
	return a.scheduleOf(s), nil
}

// ApplySchedule adds a schedule, or changes it.
func (a *API) ApplySchedule(ctx context.Context, req *taskenginev1.ApplyScheduleRequest) (*taskenginev1.ApplyScheduleResponse, error) {
	w, err := a.wantedOf(req)
	if err != nil {
		return nil, a.answer(err)
	}
	outcome, version, err := a.schedules.ApplyVersion(ctx, w)
	if err != nil {
		return nil, a.answer(err)
	}
	a.logApplied(ctx, w.Name, outcome)
	return &taskenginev1.ApplyScheduleResponse{Outcome: outcome.String(), Version: version}, nil
}

// wantedOf converts a request.
func (a *API) wantedOf(req *taskenginev1.ApplyScheduleRequest) (scheduler.Wanted, error) {
	d, err := definitionOf(req.GetDefinition())
	if err == nil {
		err = a.checkScheduled(&d.Task)
	}
	return scheduler.Wanted{Name: req.GetName(), Definition: d, Version: req.IfVersion}, err
}

func (a *API) logApplied(ctx context.Context, name string, outcome scheduler.Outcome) {
	if outcome != scheduler.Unchanged {
		a.noted(ctx, "a schedule was applied", "schedule", name, "outcome", outcome)
	}
}

// PreviewSchedule returns the next times of a schedule or of a definition.
func (a *API) PreviewSchedule(ctx context.Context, req *taskenginev1.PreviewScheduleRequest) (*taskenginev1.PreviewScheduleResponse, error) {
	if req.GetCount() > MaxPreview {
		return nil, a.answer(invalid("count is %d, of %d allowed", req.GetCount(), MaxPreview))
	}
	from, err := timeOf("from", req.GetFrom())
	if err != nil {
		return nil, a.answer(err)
	}
	if from.IsZero() {
		from = a.engine.Now()
	}
	d, err := a.definition(ctx, req)
	if err != nil {
		return nil, a.answer(err)
	}
	moments, err := d.Preview(req.GetName(), from, cmp.Or(int(req.GetCount()), defaultPreview))
	if err != nil {
		return nil, a.answer(invalid("schedule %s: %w", req.GetName(), err))
	}
	return &taskenginev1.PreviewScheduleResponse{Times: ScheduleTimes(moments)}, nil
}

// definition returns the definition that a preview is about.
func (a *API) definition(ctx context.Context, req *taskenginev1.PreviewScheduleRequest) (schedule.Definition, error) {
	if req.GetDefinition() != nil {
		return definitionOf(req.GetDefinition())
	}
	s, err := a.schedules.Get(ctx, req.GetName())
	if err != nil {
		return schedule.Definition{}, err
	}
	return s.Definition, nil
}

// DeleteSchedule ends a schedule.
func (a *API) DeleteSchedule(ctx context.Context, req *taskenginev1.DeleteScheduleRequest) (*taskenginev1.DeleteScheduleResponse, error) {
	if err := a.schedules.Delete(ctx, req.GetName()); err != nil {
		return nil, a.answer(err)
	}
	a.noted(ctx, "a schedule was deleted", "schedule", req.GetName())
	return &taskenginev1.DeleteScheduleResponse{}, nil
}

// PauseSchedule stops a schedule from firing.
func (a *API) PauseSchedule(ctx context.Context, req *taskenginev1.PauseScheduleRequest) (*taskenginev1.PauseScheduleResponse, error) {
	if n := len(req.GetReason()); n > maxReason {
		return nil, a.answer(invalid("reason has %d bytes, of %d allowed", n, maxReason))
	}
	if err := a.schedules.Pause(ctx, req.GetName(), reasonOf(ctx, req.GetReason())); err != nil {
		return nil, a.answer(err)
	}
	a.noted(ctx, "a schedule was paused", "schedule", req.GetName(), "reason", req.GetReason())
	m, err := a.schedule(ctx, req.GetName())
	if err != nil {
		return nil, err
	}
	return &taskenginev1.PauseScheduleResponse{Schedule: m}, nil
}

// ResumeSchedule ends a pause.
func (a *API) ResumeSchedule(ctx context.Context, req *taskenginev1.ResumeScheduleRequest) (*taskenginev1.ResumeScheduleResponse, error) {
	if err := a.schedules.Resume(ctx, req.GetName()); err != nil {
		return nil, a.answer(err)
	}
	a.noted(ctx, "a schedule was resumed", "schedule", req.GetName())
	m, err := a.schedule(ctx, req.GetName())
	if err != nil {
		return nil, err
	}
	return &taskenginev1.ResumeScheduleResponse{Schedule: m}, nil
}

// TriggerSchedule has a schedule add a task now.
func (a *API) TriggerSchedule(ctx context.Context, req *taskenginev1.TriggerScheduleRequest) (*taskenginev1.TriggerScheduleResponse, error) {
	id, err := a.schedules.Trigger(ctx, req.GetName())
	if err != nil {
		return nil, a.answer(err)
	}
	a.noted(ctx, "a schedule was triggered", "schedule", req.GetName(), "task_id", id)
	return &taskenginev1.TriggerScheduleResponse{TaskId: id.String()}, nil
}

// BackfillSchedule has a schedule add tasks for times of the past.
func (a *API) BackfillSchedule(ctx context.Context, req *taskenginev1.BackfillScheduleRequest) (*taskenginev1.BackfillScheduleResponse, error) {
	b, err := backfillOf(req)
	if err != nil {
		return nil, a.answer(err)
	}
	s, err := a.schedules.Get(ctx, req.GetName())
	if err != nil {
		return nil, a.answer(err)
	}
	n, err := s.Definition.Count(req.GetName(), b.From, b.To, MaxBackfill+1)
	switch {
	case err != nil:
		return nil, a.answer(invalid("schedule %s: %w", req.GetName(), err))
	case n > MaxBackfill:
		return nil, a.answer(invalid("schedule %s has more than %d times from %s to %s; backfill a shorter time, and the rest when that is done",
			req.GetName(), MaxBackfill, b.From.Format(time.RFC3339), b.To.Format(time.RFC3339)))
	case n == 0 || req.GetDryRun():
		return &taskenginev1.BackfillScheduleResponse{Tasks: n}, nil
	}
	if err := a.schedules.Backfill(ctx, req.GetName(), b); err != nil {
		return nil, a.answer(err)
	}
	a.noted(ctx, "a schedule was backfilled", "schedule", req.GetName(), "from", b.From, "to", b.To, "tasks", n)
	return &taskenginev1.BackfillScheduleResponse{Tasks: n}, nil
}

// backfillOf converts a request.
func backfillOf(req *taskenginev1.BackfillScheduleRequest) (b schedule.Backfill, err error) {
	if b.From, err = timeOf("from", req.GetFrom()); err != nil {
		return b, err
	}
	if b.To, err = timeOf("to", req.GetTo()); err != nil {
		return b, err
	}
	switch {
	case b.From.IsZero() || b.To.IsZero():
		return b, invalid("from and to are required")
	case b.To.Before(b.From):
		return b, invalid("to is before from")
	}
	return b, nil
}
