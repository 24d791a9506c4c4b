package server

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/internal/suggest"
	"github.com/taskengine/taskengine/schedule"
	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
	"github.com/taskengine/taskengine/task"
	"github.com/taskengine/taskengine/workflow"
	"github.com/taskengine/taskengine/workflow/runner"
)

var errNoDefinition = errors.New("the configuration of the node has no such workflow")

// SubmitWorkflow adds a workflow.
func (a *API) SubmitWorkflow(ctx context.Context, req *taskenginev1.SubmitWorkflowRequest) (*taskenginev1.SubmitWorkflowResponse, error) {
	res, err := a.submitWorkflow(ctx, req)
	if err != nil {
		return nil, a.answer(err)
	}
	return res, nil
}

func (a *API) submitWorkflow(ctx context.Context, req *taskenginev1.SubmitWorkflowRequest) (*taskenginev1.SubmitWorkflowResponse, error) {
	if err := a.permit(ctx, workflow.Type); err != nil {
		return nil, err
	}
	d, err := a.definitionOf(req)
	if err != nil {
		return nil, err
	}
	r, err := workflow.Request(d, []byte(req.GetInput()))
	if err != nil {
		return nil, invalid("%w", err)
	}
	common, err := requestOf(&taskenginev1.NewTask{Id: req.GetId(), Priority: req.Priority, At: req.GetAt(), In: req.GetIn()}, a.engine.Now())
	if err != nil {
		return nil, err
	}
	r.ID, r.Key, r.Priority, r.At = common.ID, req.GetKey(), common.Priority, common.At
	if len(req.GetHeaders()) > 0 {
		headers := maps.Clone(req.GetHeaders())
		maps.Copy(headers, r.Headers)
		r.Headers = headers
	}
	if err := a.permitRequest(ctx, &r); err != nil {
		return nil, err
	}
	if err := runner.CheckResults(a.engine, d); err != nil {
		return nil, invalid("%w", err)
	}
	if a.submitted != nil {
		ctx = a.submitted(ctx, headerOf(ctx))
	}
	ctx, cancel := patient(ctx)
	defer cancel()
	receipts, err := a.engine.Submit(ctx, r)
	if err != nil {
		return nil, err
	}
	var warnings typeWarnings
	warning := ""
	for _, typ := range d.Types() {
		if warning == "" {
			warning = warnings.of(ctx, a, typ)
		}
	}
	return &taskenginev1.SubmitWorkflowResponse{Receipt: receiptOf(receipts[0], warning)}, nil
}

// definitionOf returns the definition that a request gives or names.
func (a *API) definitionOf(req *taskenginev1.SubmitWorkflowRequest) (*workflow.Definition, error) {
	switch {
	case (req.GetName() == "") == (req.GetDefinition() == ""):
		return nil, invalid("either name or definition is required")
	case req.GetDefinition() != "":
		d, err := workflow.Parse([]byte(req.GetDefinition()))
		if err != nil {
			return nil, invalid("definition: %w", err)
		}
		return d, nil
	}
	return a.configured(req.GetName())
}

// configured returns the workflow of the configuration with a name.
func (a *API) configured(name string) (*workflow.Definition, error) {
	if d := a.workflows[name]; d != nil {
		return d, nil
	}
	near := ""
	if one := suggest.Nearest(name, slices.Sorted(maps.Keys(a.workflows))); one != "" {
		near = ", did you mean " + one + "?"
	}
	return nil, fmt.Errorf("%w: %.80q%s", errNoDefinition, name, near)
}

// checkScheduled returns an error if this node cannot add the workflow of a schedule.
func (a *API) checkScheduled(t *schedule.Template) error {
	if t.Workflow == "" {
		return nil
	}
	d, err := a.configured(t.Workflow)
	if err != nil {
		return err
	}
	if _, err := workflow.Request(d, t.SampleInput()); err != nil {
		return invalid("%w", err)
	}
	return nil
}

// GetWorkflow returns a workflow.
func (a *API) GetWorkflow(ctx context.Context, req *taskenginev1.GetWorkflowRequest) (*taskenginev1.GetWorkflowResponse, error) {
	w, err := a.getWorkflow(ctx, req)
	if err != nil {
		return nil, a.answer(err)
	}
	return &taskenginev1.GetWorkflowResponse{Workflow: workflowOf(w)}, nil
}

func (a *API) getWorkflow(ctx context.Context, req *taskenginev1.GetWorkflowRequest) (*runner.Workflow, error) {
	if err := a.permit(ctx, workflow.Type); err != nil {
		return nil, err
	}
	if (req.GetId() == "") == (req.GetKey() == "") {
		return nil, invalid("either id or key is required")
	}
	if req.GetKey() == "" {
		id, err := parseID(req.GetId())
		if err != nil {
			return nil, err
		}
		return a.permittedWorkflow(ctx, id)
	}
	t, err := a.engine.Find(ctx, workflow.Type, "", req.GetKey())
	if errors.Is(err, task.ErrNotFound) {
		return nil, fmt.Errorf("no workflow has the key %q: %w", req.GetKey(), task.ErrNotFound)
	}
	if err != nil && !errors.Is(err, engine.ErrUnreadable) {
		return nil, err
	}
	return a.permittedWorkflow(ctx, t.ID)
}

// permittedWorkflow returns a workflow that the caller may see: its output has results of its steps.
func (a *API) permittedWorkflow(ctx context.Context, id task.ID) (*runner.Workflow, error) {
	w, err := runner.Of(a.engine).Get(ctx, id)
	if err != nil {
		return nil, err
	}
	return w, a.permit(ctx, w.Spec.Definition.Types()...)
}

// RetryWorkflow has a workflow run again.
func (a *API) RetryWorkflow(ctx context.Context, req *taskenginev1.RetryWorkflowRequest) (*taskenginev1.RetryWorkflowResponse, error) {
	w, err := a.retryWorkflow(ctx, req)
	if err != nil {
		return nil, a.answer(err)
	}
	a.edited(w.Task)
	return &taskenginev1.RetryWorkflowResponse{Workflow: workflowOf(w)}, nil
}

func (a *API) retryWorkflow(ctx context.Context, req *taskenginev1.RetryWorkflowRequest) (*runner.Workflow, error) {
	id, err := parseID(req.GetId())
	if err != nil {
		return nil, err
	}
	if err := a.permit(ctx, workflow.Type); err != nil {
		return nil, err
	}
	if _, err := a.permittedWorkflow(ctx, id); err != nil {
		return nil, err
	}
	return runner.Of(a.engine).Retry(ctx, task.Ref{ID: id, Version: req.GetVersion()}, req.GetFrom())
}

// workflowOf returns the message of a workflow.
func workflowOf(w *runner.Workflow) *taskenginev1.Workflow {
	m := &taskenginev1.Workflow{Name: text(w.Spec.Definition.Name), Task: summaryOf(w.Task), Output: text(string(w.Output)), Retries: uint32(w.Retries)}
	for i := range w.Steps {
		m.Steps = append(m.Steps, stepOf(&w.Steps[i]))
	}
	return m
}

func stepOf(s *runner.Step) *taskenginev1.WorkflowStep {
	m := phaseOf(&s.State, s.Tasks)
	m.Name, m.Type, m.After, m.Waits = s.Name, s.Definition.Type, s.Definition.After, s.Waits
	if w := s.Definition.Wait; w != nil {
		m.Signal = w.Signal
	}
	if u := s.State.Undo; u != nil {
		m.Compensation = phaseOf(u, s.Undo)
		m.Compensation.Type = s.Definition.Compensate.Type
	}
	return m
}

func phaseOf(s *workflow.StepState, ids []task.ID) *taskenginev1.WorkflowStep {
	m := &taskenginev1.WorkflowStep{
		State: string(s.Phase), Count: s.Count, Done: s.Done, Failed: s.Failed, Cancelled: s.Cancelled, Error: text(s.Error),
		Began: stamp(s.Began), Ended: stamp(s.Ended), Until: stamp(s.Until),
	}
	if s.Phase == workflow.Pending {
		m.State = "pending"
	}
	for _, id := range ids {
		m.TaskIds = append(m.TaskIds, id.String())
	}
	return m
}
