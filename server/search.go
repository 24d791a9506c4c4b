package server

import (
	"context"
	"time"

	"github.com/taskengine/taskengine/filter"
	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

// search answers a request for a list with a filter. rest has the other fields of the request that select tasks.
func (a *API) search(ctx context.Context, req *taskenginev1.ListRequest, rest storage.Filter, before task.ID, limit int) (*taskenginev1.ListResponse, error) {
	where, err := filter.Parse(req.GetWhere(), time.Now())
	if err != nil {
		return nil, a.answer(invalid("where: %w", err))
	}
	found, err := a.engine.Search(ctx, where.And(filter.Of(rest.States, rest.Types, rest.Key)), before, limit)
	if err != nil {
		return nil, a.answer(err)
	}
	res := &taskenginev1.ListResponse{Tasks: summariesOf(found.Tasks), Read: int64(found.Read), Where: where.String()}
	if !found.Next.IsZero() {
		res.NextPageToken = found.Next.String()
	}
	return res, nil
}
