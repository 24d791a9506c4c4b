package server

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"math"

	"github.com/taskengine/taskengine/engine"
	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
	"github.com/taskengine/taskengine/task"
)

// How many tasks a response of Tree has.
const (
	treeTasks     = 100
	mostTreeTasks = 1000
)

// Tree returns a task and the tasks below it.
func (a *API) Tree(ctx context.Context, req *taskenginev1.TreeRequest) (*taskenginev1.TreeResponse, error) {
	res, err := a.tree(ctx, req)
	if err != nil {
		return nil, a.answer(err)
	}
	return res, nil
}

func (a *API) tree(ctx context.Context, req *taskenginev1.TreeRequest) (*taskenginev1.TreeResponse, error) {
	limit := int(req.GetLimit())
	switch {
	case limit == 0:
		limit = treeTasks
	case limit > mostTreeTasks:
		return nil, invalid("limit is %d, and at most %d", limit, mostTreeTasks)
	}
	id, err := parseID(req.GetId())
	if err != nil {
		return nil, err
	}
	tree := a.engine.Tree(ctx, id)
	if token := req.GetPageToken(); token != "" {
		after, err := placeOf(token)
		if err != nil {
			return nil, err
		}
		tree = a.engine.TreeAfter(ctx, id, after)
	}
	res, last := new(taskenginev1.TreeResponse), ""
	for one, err := range tree {
		if err != nil {
			return nil, err
		}
		if err := a.permit(ctx, one.Task.Type); err != nil {
			return nil, err
		}
		if len(res.Tasks) == limit {
			res.NextPageToken = last
			break
		}
		m := summaryOf(one.Task)
		m.Children, m.After = childrenOf(one.Task), afterOf(one.Task)
		if res.Tasks = append(res.Tasks, &taskenginev1.TreeTask{Task: m, Depth: uint32(one.Depth)}); len(res.Tasks) == limit {
			last = tokenOf(one.Place)
		}
	}
	return res, nil
}

// tokenOf returns the page token for the tasks of a tree behind a place. That of the root is one byte, not empty.
func tokenOf(place engine.TreePlace) string {
	b := []byte{1}
	for _, step := range place {
		b = binary.AppendUvarint(binary.AppendUvarint(b, uint64(step.Set)), uint64(step.Index))
	}
	return base64.RawURLEncoding.EncodeToString(b)
}

// placeOf returns the place that a page token has.
func placeOf(token string) (place engine.TreePlace, err error) {
	b, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil || len(b) == 0 || b[0] != 1 {
		return nil, errPageToken
	}
	for b = b[1:]; len(b) > 0; {
		var of [2]uint32
		for i := range of {
			v, n := binary.Uvarint(b)
			if n <= 0 || v > math.MaxUint32 {
				return nil, errPageToken
			}
			of[i], b = uint32(v), b[n:]
		}
		place = append(place, engine.TreeStep{Set: of[0], Index: of[1]})
	}
	return place, nil
}

var errPageToken = invalid("page_token is not one of an earlier response")

// cancelTree cancels a task and all tasks below it, as far as the time of the request allows.
func (a *API) cancelTree(ctx context.Context, req *taskenginev1.CancelRequest) (*taskenginev1.CancelResponse, error) {
	if req.GetVersion() != 0 {
		return nil, invalid("tree and version exclude each other")
	}
	id, err := parseID(req.GetId())
	if err != nil {
		return nil, err
	}
	if err := a.permitTasks(ctx, id); err != nil {
		return nil, err
	}
	timed, cancel := patient(ctx)
	defer cancel()
	tree, err := a.engine.CancelTree(timed, id, engine.TreeCancel{
		Reason: cancelledBy(ctx, req.GetReason()),
		May:    func(t *task.Task) error { return a.permit(ctx, t.Type) },
		Cancelled: func(t *task.Task) {
			a.edited(t)
		},
	})
	isOver := tree.Root != nil && ctx.Err() == nil && (errors.Is(err, context.DeadlineExceeded) || err != nil && timed.Err() != nil)
	if err != nil && !isOver {
		return nil, err
	}
	return &taskenginev1.CancelResponse{Task: summaryOf(tree.Root), Cancelled: uint64(tree.Cancelled), Missing: uint64(tree.Missing), More: isOver}, nil
}
