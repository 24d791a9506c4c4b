package client

import (
	"context"
	"iter"
	"slices"

	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
	"github.com/taskengine/taskengine/server/proto/taskengine/v1/taskenginev1connect"
)

// ScheduleFilter selects schedules. The zero ScheduleFilter selects all.
type ScheduleFilter struct {
	Prefix  string // only schedules with names that begin with it
	Paused  bool   // only schedules that are paused
	Failing bool   // only schedules with an Error
	After   string // only schedules after the one with this name
}

// Schedules returns the schedules that f selects, in the order of their names, without the payloads of their tasks, and without
// their waiting times and running fires. It ends after an error. Each page is a call with a time limit of its own, if ctx has none.
func (c *Client) Schedules(ctx context.Context, f ScheduleFilter) iter.Seq2[*Schedule, error] {
	return func(yield func(*Schedule, error) bool) {
		req := &taskenginev1.ListSchedulesRequest{Prefix: f.Prefix, Paused: f.Paused, Failing: f.Failing, PageToken: f.After}
		for {
			res, err := call[taskenginev1.ListSchedulesResponse](ctx, c, taskenginev1connect.TaskServiceListSchedulesProcedure, req, true)
			if err != nil {
				yield(nil, err)
				return
			}
			for _, m := range res.GetSchedules() {
				if s, err := decodeSchedule(m); !yield(s, err) || err != nil {
					return
				}
			}
			if req.PageToken = res.GetNextPageToken(); req.PageToken == "" {
				return
			}
		}
	}
}

// NamedSchedule is a schedule for [Client.ApplySchedules].
type NamedSchedule struct {
	Name       string
	Definition ScheduleDefinition
	IfVersion  *uint64 // the version that the schedule must have, 0 if there must be none; nil: any
}

// AppliedSchedule is the effect of [Client.ApplySchedules] on one schedule.
type AppliedSchedule struct {
	Name    string
	Outcome ScheduleOutcome // empty if it was not applied
	Version uint64          // of the schedule then; 0 if it was not applied
	Code    string          // the code of the error, such as aborted for another version; empty if it was applied
	Error   string          // why it was not applied; empty if it was
}

// appliedAtOnce is how many schedules a request has.
const appliedAtOnce = 100

// ApplySchedules creates or changes schedules as [Client.ApplySchedule] does, 100 with each request. It returns the effect on each,
// in their order. After an error it returns the effects of the requests before. Then the same call applies the rest.
func (c *Client) ApplySchedules(ctx context.Context, schedules ...NamedSchedule) (done []AppliedSchedule, err error) {
	for some := range slices.Chunk(schedules, appliedAtOnce) {
		req := new(taskenginev1.ApplySchedulesRequest)
		for i := range some {
			req.Schedules = append(req.Schedules, namedMessage(&some[i]))
		}
		res, err := call[taskenginev1.ApplySchedulesResponse](ctx, c, taskenginev1connect.TaskServiceApplySchedulesProcedure, req, true)
		if err != nil {
			return done, err
		}
		done = append(done, all(res.GetSchedules(), appliedOf)...)
	}
	return done, nil
}

func namedMessage(s *NamedSchedule) *taskenginev1.ApplyScheduleRequest {
	return &taskenginev1.ApplyScheduleRequest{Name: s.Name, Definition: definitionMessage(&s.Definition), IfVersion: s.IfVersion}
}

func appliedOf(m *taskenginev1.AppliedSchedule) AppliedSchedule {
	return AppliedSchedule{Name: m.GetName(), Outcome: ScheduleOutcome(m.GetOutcome()), Version: m.GetVersion(), Code: m.GetCode(), Error: m.GetError()}
}

// ScheduleSelection selects the schedules that one call changes: by a prefix of their names, or all.
type ScheduleSelection struct {
	Prefix string
	All    bool // Prefix is empty
	DryRun bool // only count them
}

// SchedulesChanged is the effect of a call on the schedules of a [ScheduleSelection].
type SchedulesChanged struct {
	Changed   int // how many were changed, or would be
	Unchanged int // how many are so already
	Failed    []ScheduleFailure
}

// ScheduleFailure says why a schedule was not changed.
type ScheduleFailure struct {
	Name  string
	Error string
}

// PauseSchedules pauses the schedules of a selection, as [Client.PauseSchedule] does. Each request changes up to 1000 of them, each by
// itself. After an error it returns the counts of the requests before, and the same call pauses the rest.
func (c *Client) PauseSchedules(ctx context.Context, of ScheduleSelection, reason string) (SchedulesChanged, error) {
	return changeAll(of, func(m *taskenginev1.ScheduleSelection) (*taskenginev1.SchedulesChanged, error) {
		req := &taskenginev1.PauseSchedulesRequest{Select: m, Reason: reason}
		res, err := call[taskenginev1.PauseSchedulesResponse](ctx, c, taskenginev1connect.TaskServicePauseSchedulesProcedure, req, true)
		return res.GetResult(), err
	})
}

// ResumeSchedules ends the pauses of the schedules of a selection, as [Client.PauseSchedules] begins them.
func (c *Client) ResumeSchedules(ctx context.Context, of ScheduleSelection) (SchedulesChanged, error) {
	return changeAll(of, func(m *taskenginev1.ScheduleSelection) (*taskenginev1.SchedulesChanged, error) {
		req := &taskenginev1.ResumeSchedulesRequest{Select: m}
		res, err := call[taskenginev1.ResumeSchedulesResponse](ctx, c, taskenginev1connect.TaskServiceResumeSchedulesProcedure, req, true)
		return res.GetResult(), err
	})
}

// DeleteSchedules deletes the schedules of a selection, in parts as [Client.PauseSchedules]. Tasks that they have added are not affected.
func (c *Client) DeleteSchedules(ctx context.Context, of ScheduleSelection) (SchedulesChanged, error) {
	return changeAll(of, func(m *taskenginev1.ScheduleSelection) (*taskenginev1.SchedulesChanged, error) {
		req := &taskenginev1.DeleteSchedulesRequest{Select: m}
		res, err := call[taskenginev1.DeleteSchedulesResponse](ctx, c, taskenginev1connect.TaskServiceDeleteSchedulesProcedure, req, true)
		return res.GetResult(), err
	})
}

// changeAll changes the schedules of a selection, part by part.
func changeAll(of ScheduleSelection, change func(*taskenginev1.ScheduleSelection) (*taskenginev1.SchedulesChanged, error)) (sum SchedulesChanged, err error) {
	m := &taskenginev1.ScheduleSelection{Prefix: of.Prefix, All: of.All, DryRun: of.DryRun}
	for {
		part, err := change(m)
		if err != nil {
			return sum, err
		}
		sum.Changed, sum.Unchanged = sum.Changed+int(part.GetChanged()), sum.Unchanged+int(part.GetUnchanged())
		for _, f := range part.GetFailed() {
			sum.Failed = append(sum.Failed, ScheduleFailure{Name: f.GetName(), Error: f.GetError()})
		}
		if m.PageToken = part.GetNextPageToken(); m.PageToken == "" {
			return sum, nil
		}
	}
}
