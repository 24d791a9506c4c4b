package client

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
	"github.com/taskengine/taskengine/server/proto/taskengine/v1/taskenginev1connect"
	"github.com/taskengine/taskengine/task"
)

// WorkflowType is the type of the tasks that are workflows.
const WorkflowType = task.WorkflowType

// WorkflowRequest describes a workflow to add. Either Name or Definition is required.
type WorkflowRequest struct {
	Name       string // of a workflow in the configuration of the node
	Definition []byte // JSON, see package workflow
	Input      []byte // JSON; nil is none

	ID       task.ID           // zero for a generated one
	Key      string            // unique among all workflows; "" is none
	Priority *uint8            // of the workflow and not of its tasks; nil is the default
	At       time.Time         // earliest start; zero is now
	Headers  map[string]string // kept with the workflow
}

// Workflow is a workflow and its steps.
type Workflow struct {
	Name    string
	Task    *Task // without payload, result and checkpoint
	Steps   []WorkflowStep
	Output  []byte // JSON; nil if the workflow is not done, or has none
	Retries int    // how often it was retried
}

// WorkflowStep is a step of a workflow.
type WorkflowStep struct {
	Name  string
	Type  string // of its tasks; "" for a wait
	State string // pending, running, done, failed, cancelled or skipped
	After []string
	Waits []string // the steps for which a pending one waits

	// The tasks of its newest run: how many there are, how many have ended so, and the ids of the first hundred.
	Count, Done, Failed, Cancelled uint32
	Tasks                          []task.ID

	Began, Ended time.Time     // zero if it has not
	Error        string        // why it is not done, or was skipped
	Signal       string        // that it waits for
	Until        time.Time     // until when it waits; zero if it does not
	Compensation *WorkflowStep // nil if it was not compensated
}

// SubmitWorkflow adds a workflow. It is added once, though a lost answer has the client ask again.
func (c *Client) SubmitWorkflow(ctx context.Context, r WorkflowRequest) (Receipt, error) {
	isOwn := r.ID.IsZero()
	if isOwn {
		r.ID = c.newID(&Request{Type: WorkflowType, Key: r.Key})
	}
	req := &taskenginev1.SubmitWorkflowRequest{
		Name: r.Name, Definition: string(r.Definition), Input: string(r.Input), Id: r.ID.String(), Key: r.Key, Headers: r.Headers,
	}
	if r.Priority != nil {
		req.Priority = new(uint32(*r.Priority))
	}
	if !r.At.IsZero() {
		req.At = timestamppb.New(r.At)
	}
	res, err := call[taskenginev1.SubmitWorkflowResponse](ctx, c, taskenginev1connect.TaskServiceSubmitWorkflowProcedure, req, true)
	if err != nil {
		return Receipt{}, err
	}
	receipt, err := receiptOf(res.GetReceipt())
	if isOwn && receipt.ID == r.ID { // an earlier try has added it
		receipt.Created, receipt.Outcome = true, ReceiptCreated
	}
	return receipt, err
}

// Workflow returns a workflow. The error wraps [ErrNotFound] if there is none with the id.
func (c *Client) Workflow(ctx context.Context, id task.ID) (*Workflow, error) {
	return c.workflow(ctx, &taskenginev1.GetWorkflowRequest{Id: id.String()})
}

// WorkflowOf returns the workflow that has a key.
func (c *Client) WorkflowOf(ctx context.Context, key string) (*Workflow, error) {
	return c.workflow(ctx, &taskenginev1.GetWorkflowRequest{Key: key})
}

func (c *Client) workflow(ctx context.Context, req *taskenginev1.GetWorkflowRequest) (*Workflow, error) {
	res, err := call[taskenginev1.GetWorkflowResponse](ctx, c, taskenginev1connect.TaskServiceGetWorkflowProcedure, req, true)
	if err != nil {
		return nil, err
	}
	return decodeWorkflow(res.GetWorkflow())
}

// RetryWorkflow has a workflow run again that has failed, was cancelled or is in error. The step from and all after it run anew, and so
// do the steps that have failed, were stopped or were compensated, with those after them; if from is "", only these. Version 0 is
// any. [Client.CancelTree] cancels a workflow.
func (c *Client) RetryWorkflow(ctx context.Context, ref task.Ref, from string) (*Workflow, error) {
	req := &taskenginev1.RetryWorkflowRequest{Id: ref.ID.String(), Version: ref.Version, From: from}
	res, err := call[taskenginev1.RetryWorkflowResponse](ctx, c, taskenginev1connect.TaskServiceRetryWorkflowProcedure, req, false)
	if err != nil {
		return nil, err
	}
	return decodeWorkflow(res.GetWorkflow())
}

func decodeWorkflow(m *taskenginev1.Workflow) (*Workflow, error) {
	t, err := decodeTask(m.GetTask())
	if err != nil {
		return nil, err
	}
	w := &Workflow{Name: m.GetName(), Task: t, Retries: int(m.GetRetries())}
	if m.GetOutput() != "" {
		w.Output = []byte(m.GetOutput())
	}
	for _, s := range m.GetSteps() {
		step, err := decodeStep(s)
		if err != nil {
			return nil, err
		}
		w.Steps = append(w.Steps, *step)
	}
	return w, nil
}

func decodeStep(m *taskenginev1.WorkflowStep) (*WorkflowStep, error) {
	s := &WorkflowStep{
		Name: m.GetName(), Type: m.GetType(), State: m.GetState(), After: m.GetAfter(), Waits: m.GetWaits(), Error: m.GetError(), Signal: m.GetSignal(),
		Count: m.GetCount(), Done: m.GetDone(), Failed: m.GetFailed(), Cancelled: m.GetCancelled(),
		Began: timeOf(m.GetBegan()), Ended: timeOf(m.GetEnded()), Until: timeOf(m.GetUntil()),
	}
	for _, text := range m.GetTaskIds() {
		id, err := task.ParseID(text)
		if err != nil {
			return nil, fmt.Errorf("a task of step %s: %w", s.Name, err)
		}
		s.Tasks = append(s.Tasks, id)
	}
	if c := m.GetCompensation(); c != nil {
		var err error
		if s.Compensation, err = decodeStep(c); err != nil {
			return nil, err
		}
	}
	return s, nil
}
