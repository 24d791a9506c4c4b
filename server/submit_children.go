package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/taskengine/taskengine/engine"
	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
	"github.com/taskengine/taskengine/task"
	"github.com/taskengine/taskengine/workflow"
)

// defaultChildren is the name of children for which a request gives none.
const defaultChildren = "child"

// SubmitWithChildren adds a task with its children.
func (a *API) SubmitWithChildren(ctx context.Context, req *taskenginev1.SubmitWithChildrenRequest) (*taskenginev1.SubmitWithChildrenResponse, error) {
	r, err := familyOf(req, a.engine.Now())
	if err != nil {
		return nil, a.answer(err)
	}
	if err := a.permitRequest(ctx, &r); err != nil {
		return nil, a.answer(err)
	}
	if err := a.permitChildren(ctx, r.Children.Sets[0].Requests, r.Type); err != nil {
		return nil, a.answer(err)
	}
	if a.submitted != nil {
		ctx = a.submitted(ctx, headerOf(ctx))
	}
	receipts, err := a.engine.Submit(ctx, r)
	if err != nil {
		return nil, a.answer(err)
	}
	isOpen, err := a.takesMore(ctx, &r, &receipts[0])
	if err != nil {
		return nil, a.answer(err)
	}
	var warnings typeWarnings
	return &taskenginev1.SubmitWithChildrenResponse{Receipt: receiptOf(receipts[0], warnings.of(ctx, a, r.Type)), Open: isOpen}, nil
}

// takesMore reports whether the task of a receipt takes more children of the name in the request. Of a task of another type, for which the caller
// may have no rights, it says no.
func (a *API) takesMore(ctx context.Context, r *engine.Request, receipt *engine.Receipt) (bool, error) {
	if receipt.Created || receipt.ID.IsZero() {
		return receipt.Created && r.Children.Open, nil
	}
	t, err := a.engine.Get(ctx, receipt.ID)
	switch {
	case errors.Is(err, task.ErrNotFound):
		return false, nil
	case err != nil:
		return false, err
	}
	set := t.Children.Set(r.Children.Sets[0].Name)
	return t.Type == r.Type && t.State == task.Waiting && set != nil && set.IsOpen(), nil
}

// familyOf converts a request for a task with children.
func familyOf(req *taskenginev1.SubmitWithChildrenRequest, now time.Time) (r engine.Request, err error) {
	if req.GetTask() == nil {
		return r, invalid("task is missing")
	}
	if req.GetOpen() && (req.GetCount() > 0 || req.GetOrFailed()) {
		return r, invalid("open excludes count and or_failed, which are given when the children are closed")
	}
	if r, err = requestOf(req.GetTask(), now); err != nil {
		return r, err
	}
	set := task.ChildRequests{Name: cmp.Or(req.GetName(), defaultChildren)}
	if set.Requests, err = childRequestsOf(req.GetChildren(), 0, now); err != nil {
		return r, err
	}
	r.Children = &task.NewChildren{Sets: []task.ChildRequests{set}, Open: req.GetOpen()}
	if !r.Children.Open {
		r.Children.Waits = []task.ChildrenWait{{Name: set.Name, Count: req.GetCount(), OrFailed: req.GetOrFailed()}}
	}
	r.Children.Until, err = timeOf("until", req.GetUntil())
	return r, err
}

// childRequestsOf converts requests for children, of which the first has the number from.
func childRequestsOf(ms []*taskenginev1.NewTask, from uint32, now time.Time) ([]engine.Request, error) {
	if len(ms) > MaxChildren {
		return nil, invalid("%w: %d, of %d allowed in one request; submit the first ones as open, and the others by AddChildren", engine.ErrTooManyChildren, len(ms), MaxChildren)
	}
	reqs := make([]engine.Request, len(ms))
	for i, m := range ms {
		var err error
		if reqs[i], err = requestOf(m, now); err != nil {
			return nil, fmt.Errorf("child %d: %w", uint64(from)+uint64(i), err)
		}
	}
	return reqs, nil
}

// permitChildren returns an error if the caller may not add one of the children of a task of a type that it may add.
func (a *API) permitChildren(ctx context.Context, children []engine.Request, parent string) error {
	seen := map[string]bool{parent: true}
	for i := range children {
		child := &children[i]
		if seen[child.Type] && child.Type != workflow.Type { // a workflow is for other types, too
			continue
		}
		if err := a.permitRequest(ctx, child); err != nil {
			return err
		}
		seen[child.Type] = true
	}
	return nil
}

// AddChildren adds children to a task that was submitted with open children.
func (a *API) AddChildren(ctx context.Context, req *taskenginev1.AddChildrenRequest) (*taskenginev1.AddChildrenResponse, error) {
	added, err := a.addChildren(ctx, req)
	if err != nil {
		return nil, a.answer(err)
	}
	return &taskenginev1.AddChildrenResponse{Added: added.Added, Open: added.IsOpen}, nil
}

func (a *API) addChildren(ctx context.Context, req *taskenginev1.AddChildrenRequest) (none engine.ChildrenAdded, err error) {
	m := engine.MoreChildren{
		Name: cmp.Or(req.GetName(), defaultChildren), From: req.GetFrom(),
		Close: req.GetClose(), Wait: task.ChildrenWait{Count: req.GetCount(), OrFailed: req.GetOrFailed()},
	}
	if m.Parent, err = parseID(req.GetId()); err != nil {
		return none, err
	}
	if m.Requests, err = childRequestsOf(req.GetChildren(), m.From, a.engine.Now()); err != nil {
		return none, err
	}
	if err := a.permitTasks(ctx, m.Parent); err != nil {
		return none, err
	}
	if err := a.permitChildren(ctx, m.Requests, ""); err != nil {
		return none, err
	}
	if a.submitted != nil {
		ctx = a.submitted(ctx, headerOf(ctx))
	}
	return a.engine.AddChildren(ctx, m)
}
