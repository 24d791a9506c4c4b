package server

import (
	"cmp"
	"context"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/filter"
	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

// search answers a request for a list with a filter. rest has the other fields of the request that select tasks.
func (a *API) search(ctx context.Context, req *taskenginev1.ListRequest, rest storage.Filter, before task.ID, limit int) (*taskenginev1.ListResponse, error) {
	where, err := filter.Parse(req.GetWhere(), a.engine.Now())
	if err != nil {
		return nil, a.answer(invalid("where: %w", err))
	}
	all := where.And(filter.Of(rest.States, rest.Types, rest.Key))
	if err := a.permitWhere(ctx, all); err != nil {
		return nil, err
	}
	found, err := a.engine.Search(ctx, all, before, limit)
	if err != nil {
		return nil, a.answer(err)
	}
	res := &taskenginev1.ListResponse{Tasks: summariesOf(found.Tasks), Read: int64(found.Read), Where: where.String(), Index: found.Index, Total: found.Total}
	if !found.Next.IsZero() {
		res.NextPageToken = found.Next.String()
	}
	return res, nil
}

// count counts the tasks that a filter and the other fields of a request select.
func (a *API) count(ctx context.Context, where string, rest storage.Filter) (engine.Counted, error) {
	if where == "" {
		counts, err := a.engine.Count(ctx, rest)
		return engine.Counted{Counts: counts}, err
	}
	f, err := filter.Parse(where, a.engine.Now())
	if err != nil {
		return engine.Counted{}, invalid("where: %w", err)
	}
	f = f.And(filter.Of(rest.States, rest.Types, ""))
	if err := a.permitWhere(ctx, f); err != nil {
		return engine.Counted{}, err
	}
	return a.engine.CountWhere(ctx, f)
}

// ListErrors returns the kinds of the errors of tasks.
func (a *API) ListErrors(ctx context.Context, req *taskenginev1.ListErrorsRequest) (*taskenginev1.ListErrorsResponse, error) {
	if req.GetLimit() > MaxList {
		return nil, a.answer(invalid("limit is %d, of %d allowed", req.GetLimit(), MaxList))
	}
	rest, err := filterOf(nil, req.GetTypes())
	if err != nil {
		return nil, a.answer(err)
	}
	if err := a.permitFilter(ctx, req.GetTypes()); err != nil {
		return nil, err
	}
	where, err := filter.Parse(req.GetWhere(), a.engine.Now())
	if err != nil {
		return nil, a.answer(invalid("where: %w", err))
	}
	all := where.And(filter.Of(nil, rest.Types, ""))
	if err := a.permitWhere(ctx, all); err != nil {
		return nil, err
	}
	found, err := a.engine.Errors(ctx, all, cmp.Or(int(req.GetLimit()), defaultList))
	if err != nil {
		return nil, a.answer(err)
	}
	res := &taskenginev1.ListErrorsResponse{Tasks: int64(found.Tasks), Others: int64(found.Others), Read: int64(found.Read), Complete: found.Complete, Index: found.Index, Total: found.Total}
	for _, k := range found.Kinds {
		res.Kinds = append(res.Kinds, errorKindOf(k))
	}
	return res, nil
}

func errorKindOf(k engine.ErrorKind) *taskenginev1.ErrorKind {
	return &taskenginev1.ErrorKind{
		Kind: k.Kind.String(), Pattern: text(k.Pattern), Tasks: int64(k.Tasks), First: stamp(k.First), Last: stamp(k.Last),
		Types: texts(k.Types), Nodes: texts(k.Nodes), Sample: k.Sample.String(), Error: text(k.Error),
	}
}
