package server

import (
	"cmp"
	"context"
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
	seen := map[string]bool{r.Type: true}
	for i := range r.Children.Sets[0].Requests {
		child := &r.Children.Sets[0].Requests[i]
		if seen[child.Type] && child.Type != workflow.Type { // a workflow is for other types, too
			continue
		}
		if err := a.permitRequest(ctx, child); err != nil {
			return nil, a.answer(err)
		}
		seen[child.Type] = true
	}
	if a.submitted != nil {
		ctx = a.submitted(ctx, headerOf(ctx))
	}
	receipts, err := a.engine.Submit(ctx, r)
	if err != nil {
		return nil, a.answer(err)
	}
	var warnings typeWarnings
	return &taskenginev1.SubmitWithChildrenResponse{Receipt: receiptOf(receipts[0], warnings.of(ctx, a, r.Type))}, nil
}

// familyOf converts a request for a task with children.
func familyOf(req *taskenginev1.SubmitWithChildrenRequest, now time.Time) (r engine.Request, err error) {
	if req.GetTask() == nil {
		return r, invalid("task is missing")
	}
	if len(req.GetChildren()) > MaxChildren {
		return r, invalid("%d children, of %d allowed in one request; give each part a task of its own, whose end a task above it waits for", len(req.GetChildren()), MaxChildren)
	}
	if r, err = requestOf(req.GetTask(), now); err != nil {
		return r, err
	}
	set := task.ChildRequests{Name: cmp.Or(req.GetName(), defaultChildren), Requests: make([]engine.Request, len(req.GetChildren()))}
	for i, m := range req.GetChildren() {
		if set.Requests[i], err = requestOf(m, now); err != nil {
			return r, fmt.Errorf("child %d: %w", i, err)
		}
	}
	r.Children = &task.NewChildren{
		Sets:  []task.ChildRequests{set},
		Waits: []task.ChildrenWait{{Name: set.Name, Count: req.GetCount(), OrFailed: req.GetOrFailed()}},
	}
	r.Children.Until, err = timeOf("until", req.GetUntil())
	return r, err
}
