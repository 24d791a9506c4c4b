package server_test

import (
	"fmt"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/taskengine/taskengine/internal/access"
	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
	"github.com/taskengine/taskengine/server/proto/taskengine/v1/taskenginev1connect"
	"github.com/taskengine/taskengine/workflow"
)

func TestAWorkflowIsSubmittedShownAndRetried(t *testing.T) {
	n := newNode(t)
	c := n.client(t)
	submit := func(req *taskenginev1.SubmitWorkflowRequest) string {
		t.Helper()
		res, err := c.SubmitWorkflow(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		return res.GetReceipt().GetId()
	}
	id := submit(&taskenginev1.SubmitWorkflowRequest{Name: "greet", Input: `{"text": "hello"}`, Key: "k", Headers: map[string]string{"a": "b"}})
	n.until(t, id, "done")
	got, err := c.GetWorkflow(t.Context(), &taskenginev1.GetWorkflowRequest{Key: "k"})
	if err != nil {
		t.Fatal(err)
	}
	w := got.GetWorkflow()
	if w.GetOutput() != `"hello"` || w.GetName() != "greet" || w.GetTask().GetHeaders()["a"] != "b" || len(w.GetSteps()) != 1 || w.GetSteps()[0].GetState() != "done" || len(w.GetSteps()[0].GetTaskIds()) != 1 {
		t.Errorf("the workflow is %v", w)
	}
	id = submit(&taskenginev1.SubmitWorkflowRequest{Definition: `{"steps": {"ok": {"type": "echo"}, "bad": {"type": "fail", "after": ["ok"]}, "wait": {"wait": {"signal": "s"}}}}`})
	n.until(t, id, "waiting")
	all, err := c.GetWorkflow(t.Context(), &taskenginev1.GetWorkflowRequest{Id: id})
	for err == nil && all.GetWorkflow().GetSteps()[1].GetState() == "pending" {
		all, err = c.GetWorkflow(t.Context(), &taskenginev1.GetWorkflowRequest{Id: id})
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.RetryWorkflow(t.Context(), &taskenginev1.RetryWorkflowRequest{Id: id}); connect.CodeOf(err) != connect.CodeFailedPrecondition {
		t.Errorf("a workflow that waits is retried: %v", err)
	}
	if _, err := c.Cancel(t.Context(), &taskenginev1.CancelRequest{Id: id, Tree: true}); err != nil {
		t.Fatal(err)
	}
	res, err := c.RetryWorkflow(t.Context(), &taskenginev1.RetryWorkflowRequest{Id: id, From: "bad"})
	for err != nil && connect.CodeOf(err) == connect.CodeFailedPrecondition { // the report of the end is on its way
		res, err = c.RetryWorkflow(t.Context(), &taskenginev1.RetryWorkflowRequest{Id: id, From: "bad"})
	}
	if err != nil || res.GetWorkflow().GetRetries() != 1 {
		t.Errorf("%v, %v", res, err)
	}
	for want, req := range map[string]*taskenginev1.SubmitWorkflowRequest{
		"did you mean greet?":                   {Name: "gret"},
		"either name or definition is required": {},
		"steps are missing":                     {Definition: "{}"},
		"the input: it is not JSON":             {Name: "greet", Input: "{"},
	} {
		if _, err := c.SubmitWorkflow(t.Context(), req); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %s", req, err, want)
		}
	}
	plain := n.submit(t, &taskenginev1.NewTask{Type: "echo"})
	if _, err := c.GetWorkflow(t.Context(), &taskenginev1.GetWorkflowRequest{Id: plain}); connect.CodeOf(err) != connect.CodeFailedPrecondition {
		t.Errorf("a task that is no workflow: %v", err)
	}
}

func TestAScheduleNamesAWorkflow(t *testing.T) {
	n := newNode(t)
	c := n.client(t)
	d := func(name, input string) *taskenginev1.ScheduleDefinition {
		return &taskenginev1.ScheduleDefinition{Cron: "30 2 * * *", Task: &taskenginev1.ScheduleTask{Workflow: name, Payload: input}}
	}
	if _, err := c.ApplySchedule(t.Context(), &taskenginev1.ApplyScheduleRequest{Name: "nightly", Definition: d("greet", `{"text": "{{date}}"}`)}); err != nil {
		t.Fatal(err)
	}
	got, err := c.GetSchedule(t.Context(), &taskenginev1.GetScheduleRequest{Name: "nightly"})
	if err != nil {
		t.Fatal(err)
	}
	if s := got.GetSchedule().GetDefinition().GetTask(); s.GetWorkflow() != "greet" || s.GetType() != "" || s.GetPayload() != `{"text": "{{date}}"}` {
		t.Errorf("the schedule adds %v", s)
	}
	for want, d := range map[string]*taskenginev1.ScheduleDefinition{
		"did you mean greet?":         d("gret", ""),
		"the input: a is given twice": d("greet", `{"a": 1, "a": "{{date}}"}`),
		"the input: it is not JSON":   d("greet", `{"a": `),
	} {
		if _, err := c.ApplySchedule(t.Context(), &taskenginev1.ApplyScheduleRequest{Name: "other", Definition: d}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %s", d, err, want)
		}
	}
}

// Who may submit workflows may still not add tasks of all types by them.
func TestAWorkflowNeedsATokenForTheTypesOfItsSteps(t *testing.T) {
	const definition = `{"steps": {"a": {"type": %q, "compensate": {"type": %q}}}}`
	g := newGuarded(t, of("some", access.Submit, workflow.Type, "echo"), of("none", access.Submit, "echo"), of("all", access.Submit))
	c := g.library(t, g.tcp.Addr().String())
	for _, one := range []struct {
		token, typ, undo string
		want             codes.Code
	}{
		{"some", "echo", "echo", codes.OK},
		{"some", "echo", "fail", codes.PermissionDenied},
		{"some", "fail", "echo", codes.PermissionDenied},
		{"some", workflow.Type, "echo", codes.PermissionDenied}, // its steps are not known
		{"none", "echo", "echo", codes.PermissionDenied},
		{"all", "fail", workflow.Type, codes.OK},
	} {
		d := fmt.Sprintf(definition, one.typ, one.undo)
		res := new(taskenginev1.SubmitWorkflowResponse)
		err := c.Invoke(withToken(t.Context(), one.token), taskenginev1connect.TaskServiceSubmitWorkflowProcedure, &taskenginev1.SubmitWorkflowRequest{Definition: d}, res)
		if status.Code(err) != one.want {
			t.Errorf("%s for %s and %s: %v, want %v", one.token, one.typ, one.undo, err, one.want)
		}
		payload := &taskenginev1.NewTask_Text{Text: `{"format": 1, "definition": ` + d + `}`}
		err = c.Invoke(withToken(t.Context(), one.token), taskenginev1connect.TaskServiceSubmitProcedure, &taskenginev1.SubmitRequest{Tasks: []*taskenginev1.NewTask{{Type: workflow.Type, Input: payload}}}, new(taskenginev1.SubmitResponse))
		if status.Code(err) != one.want {
			t.Errorf("submitted as a task, %s for %s and %s: %v, want %v", one.token, one.typ, one.undo, err, one.want)
		}
		family := &taskenginev1.SubmitWithChildrenRequest{Task: &taskenginev1.NewTask{Type: "echo"}, Children: []*taskenginev1.NewTask{{Type: "echo"}, {Type: workflow.Type, Input: payload}}}
		err = c.Invoke(withToken(t.Context(), one.token), taskenginev1connect.TaskServiceSubmitWithChildrenProcedure, family, new(taskenginev1.SubmitWithChildrenResponse))
		if status.Code(err) != one.want {
			t.Errorf("submitted as a child, %s for %s and %s: %v, want %v", one.token, one.typ, one.undo, err, one.want)
		}
		if one.token == "all" {
			err = c.Invoke(withToken(t.Context(), "some"), taskenginev1connect.TaskServiceGetWorkflowProcedure, &taskenginev1.GetWorkflowRequest{Id: res.GetReceipt().GetId()}, new(taskenginev1.GetWorkflowResponse))
			if status.Code(err) != codes.PermissionDenied {
				t.Errorf("a workflow of other types is shown: %v", err)
			}
		}
	}
}
