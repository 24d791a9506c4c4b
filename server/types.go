package server

import (
	"context"
	"slices"
	"strings"

	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
)

// ListTypes returns the state of every type.
func (a *API) ListTypes(ctx context.Context, _ *taskenginev1.ListTypesRequest) (*taskenginev1.ListTypesResponse, error) {
	types, more, err := a.engine.AllTypes(ctx, MaxList)
	if err != nil {
		if ctx.Err() != nil {
			return nil, a.answer(err)
		}
		a.log.Warn("types are listed without the types of tasks in the store, which cannot be read", "error", err)
		types, more = a.engine.Types(), true
	}
	res := &taskenginev1.ListTypesResponse{More: more}
	for _, t := range types {
		if a.permit(ctx, t.Name) != nil {
			continue
		}
		res.Types = append(res.Types, &taskenginev1.Type{
			Name: text(t.Name), Configured: t.Known, Handled: t.Handled, Paused: t.Paused, Running: uint32(t.Running),
			Nodes: text(strings.Join(slices.DeleteFunc(append([]string{t.Nodes.String()}, t.Values...), func(s string) bool { return s == "" }), "; ")), RunBy: texts(t.RunBy),
		})
	}
	return res, nil
}

// PauseType keeps tasks of a type from being started.
func (a *API) PauseType(ctx context.Context, req *taskenginev1.PauseTypeRequest) (*taskenginev1.PauseTypeResponse, error) {
	if err := a.permit(ctx, req.GetType()); err != nil {
		return nil, err
	}
	if err := a.engine.PauseBy(ctx, req.GetType(), byOf(ctx, "")); err != nil {
		return nil, a.answer(err)
	}
	a.noted(ctx, "a type was paused", "type", req.GetType())
	return &taskenginev1.PauseTypeResponse{}, nil
}

// ResumeType lets tasks of a type be started again.
func (a *API) ResumeType(ctx context.Context, req *taskenginev1.ResumeTypeRequest) (*taskenginev1.ResumeTypeResponse, error) {
	if err := a.permit(ctx, req.GetType()); err != nil {
		return nil, err
	}
	if err := a.engine.Unpause(ctx, req.GetType()); err != nil {
		return nil, a.answer(err)
	}
	a.noted(ctx, "a type was resumed", "type", req.GetType())
	return &taskenginev1.ResumeTypeResponse{}, nil
}

// Version returns the version of the program.
func (a *API) Version(context.Context, *taskenginev1.VersionRequest) (*taskenginev1.VersionResponse, error) {
	return &taskenginev1.VersionResponse{
		Version: a.build.Version, Commit: a.build.Commit, Date: a.build.Date, Go: a.build.Go, Node: a.node,
	}, nil
}
