package server

import (
	"context"
	"maps"

	"connectrpc.com/connect"

	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
	"github.com/taskengine/taskengine/timeslice/slicer"
)

// ApplyPlatforms adds, changes and removes platforms of a source.
func (a *API) ApplyPlatforms(ctx context.Context, req *taskenginev1.ApplyPlatformsRequest) (*taskenginev1.ApplyPlatformsResponse, error) {
	if err := a.checkSlices(req.GetSource()); err != nil {
		return nil, err
	}
	by, err := sliceBy(ctx, req)
	if err != nil {
		return nil, a.answer(err)
	}
	if n := len(req.GetPlatforms()); n > MaxList {
		return nil, a.answer(invalid("the request has %d platforms, of %d allowed", n, MaxList))
	}
	rows := make([]slicer.Row, len(req.GetPlatforms()))
	for i, m := range req.GetPlatforms() {
		if err := checkSliceValues(m.GetValues()); err != nil {
			return nil, a.answer(err)
		}
		rows[i] = slicer.Row{Name: m.GetName(), Values: maps.Clone(m.GetValues()), Replace: m.GetReplace(), Removed: m.GetRemoved()}
		if m != nil {
			rows[i].IfVersion = m.IfVersion
		}
	}
	done, err := a.slices.ApplyRows(ctx, a.engine, req.GetSource(), rows, req.GetDryRun(), by)
	if err != nil {
		return nil, a.answer(err)
	}
	res := &taskenginev1.ApplyPlatformsResponse{}
	counts := make(map[slicer.Outcome]int)
	for _, one := range done {
		m := &taskenginev1.AppliedPlatform{Name: text(one.Name), Outcome: string(one.Outcome), Version: one.Version}
		if one.Err != nil {
			m.Code, m.Error = connect.CodeOf(a.answer(one.Err)).String(), text(one.Err.Error())
		}
		counts[one.Outcome]++
		res.Platforms = append(res.Platforms, m)
	}
	if !req.GetDryRun() {
		a.log.Info("platforms were applied", "source", req.GetSource(), "created", counts[slicer.Created], "updated", counts[slicer.Updated],
			"removed", counts[slicer.Removed], "unchanged", counts[slicer.Unchanged], "refused", counts[""], "by", by.Who, "reason", by.Reason)
	}
	return res, nil
}
