package server

import (
	"cmp"
	"context"

	"connectrpc.com/connect"

	"github.com/taskengine/taskengine/schedule/scheduler"
	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
)

// ApplySchedules adds or changes several schedules.
func (a *API) ApplySchedules(ctx context.Context, req *taskenginev1.ApplySchedulesRequest) (*taskenginev1.ApplySchedulesResponse, error) {
	all := req.GetSchedules()
	if len(all) > MaxApply {
		return nil, a.answer(invalid("the request has %d schedules, of %d allowed", len(all), MaxApply))
	}
	res := &taskenginev1.ApplySchedulesResponse{Schedules: make([]*taskenginev1.AppliedSchedule, len(all))}
	named := make(map[string]bool, len(all))
	var wanted []scheduler.Wanted
	var places []int // of wanted in all
	for i, one := range all {
		if named[one.GetName()] {
			return nil, a.answer(invalid("schedule %s is in the request twice", one.GetName()))
		}
		named[one.GetName()] = true
		w, err := a.wantedOf(one)
		if err != nil {
			res.Schedules[i] = a.notApplied(one.GetName(), err)
			continue
		}
		wanted, places = append(wanted, w), append(places, i)
	}
	done, err := a.schedules.ApplyAll(ctx, wanted)
	if err != nil {
		return nil, a.answer(err)
	}
	for i, d := range done {
		name := wanted[i].Name
		if d.Err != nil {
			res.Schedules[places[i]] = a.notApplied(name, d.Err)
			continue
		}
		a.logApplied(ctx, name, d.Outcome)
		res.Schedules[places[i]] = &taskenginev1.AppliedSchedule{Name: text(name), Outcome: d.Outcome.String(), Version: d.Version}
	}
	return res, nil
}

// notApplied returns the message of a schedule that was not applied.
func (a *API) notApplied(name string, err error) *taskenginev1.AppliedSchedule {
	code := connect.CodeOf(a.answer(err)).String()
	return &taskenginev1.AppliedSchedule{Name: text(name), Code: code, Error: text(err.Error())}
}

// PauseSchedules pauses schedules by a prefix of their names.
func (a *API) PauseSchedules(ctx context.Context, req *taskenginev1.PauseSchedulesRequest) (*taskenginev1.PauseSchedulesResponse, error) {
	if n := len(req.GetReason()); n > maxReason {
		return nil, a.answer(invalid("reason has %d bytes, of %d allowed", n, maxReason))
	}
	result, err := a.changeSchedules(ctx, scheduler.Pausing(reasonOf(ctx, req.GetReason())), req.GetSelect(), "paused")
	if err != nil {
		return nil, err
	}
	return &taskenginev1.PauseSchedulesResponse{Result: result}, nil
}

// ResumeSchedules ends the pauses of schedules by a prefix of their names.
func (a *API) ResumeSchedules(ctx context.Context, req *taskenginev1.ResumeSchedulesRequest) (*taskenginev1.ResumeSchedulesResponse, error) {
	result, err := a.changeSchedules(ctx, scheduler.Resuming(), req.GetSelect(), "resumed")
	if err != nil {
		return nil, err
	}
	return &taskenginev1.ResumeSchedulesResponse{Result: result}, nil
}

// DeleteSchedules deletes schedules by a prefix of their names.
func (a *API) DeleteSchedules(ctx context.Context, req *taskenginev1.DeleteSchedulesRequest) (*taskenginev1.DeleteSchedulesResponse, error) {
	result, err := a.changeSchedules(ctx, scheduler.Deleting(), req.GetSelect(), "deleted")
	if err != nil {
		return nil, err
	}
	return &taskenginev1.DeleteSchedulesResponse{Result: result}, nil
}

// changeSchedules changes the schedules that are selected.
func (a *API) changeSchedules(ctx context.Context, v scheduler.Verb, of *taskenginev1.ScheduleSelection, outcome string) (*taskenginev1.SchedulesChanged, error) {
	switch {
	case of.GetLimit() > MaxList:
		return nil, a.answer(invalid("limit is %d, of %d allowed", of.GetLimit(), MaxList))
	case of.GetAll() == (of.GetPrefix() != ""):
		return nil, a.answer(invalid("either prefix or all selects schedules"))
	}
	if err := checkScheduleRange(of.GetPrefix(), of.GetPageToken()); err != nil {
		return nil, a.answer(err)
	}
	done, err := a.schedules.ChangeAll(ctx, v, of.GetPrefix(), of.GetPageToken(), cmp.Or(int(of.GetLimit()), MaxList), of.GetDryRun())
	if err != nil {
		return nil, a.answer(err)
	}
	m := &taskenginev1.SchedulesChanged{Changed: uint32(done.Changed), Unchanged: uint32(done.Unchanged), NextPageToken: done.Next}
	for _, f := range done.Failed {
		m.Failed = append(m.Failed, &taskenginev1.ScheduleFailure{Name: text(f.Name), Error: text(f.Err.Error())})
	}
	if !of.GetDryRun() && done.Changed > 0 {
		a.noted(ctx, "schedules were "+outcome, "prefix", of.GetPrefix(), "after", of.GetPageToken(), "schedules", done.Changed, "failed", len(done.Failed))
	}
	return m, nil
}
