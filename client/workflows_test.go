package client_test

import (
	"errors"
	"testing"
	"time"

	"github.com/taskengine/taskengine/client"
	"github.com/taskengine/taskengine/task"
)

func TestAWorkflowIsSubmittedReadAndRetried(t *testing.T) {
	c, _ := newClient(t)
	const definition = `{"steps": {
		"say":  {"type": "echo", "payload": {"$input": ""}, "compensate": {"type": "echo"}},
		"wait": {"after": ["say"], "wait": {"signal": "go", "timeout": "1h"}}
	}, "output": {"$result": "say"}}`
	r, err := c.SubmitWorkflow(t.Context(), client.WorkflowRequest{Definition: []byte(definition), Input: []byte(`[7]`), Key: "k"})
	if err != nil || !r.Created {
		t.Fatal(r, err)
	}
	again, err := c.SubmitWorkflow(t.Context(), client.WorkflowRequest{Definition: []byte(definition), Key: "k"})
	if err != nil || again.Created || again.ID != r.ID {
		t.Errorf("a second workflow with the key: %+v, %v", again, err)
	}
	until := func(state string) *client.Workflow {
		t.Helper()
		for {
			w, err := c.WorkflowOf(t.Context(), "k")
			if err != nil {
				t.Fatal(err)
			}
			if w.Steps[1].State == state {
				return w
			}
			time.Sleep(time.Millisecond)
		}
	}
	w := until("running")
	if say, wait := w.Steps[0], w.Steps[1]; say.State != "done" || say.Done != 1 || len(say.Tasks) != 1 || say.Ended.IsZero() || wait.Signal != "go" || wait.Until.IsZero() || wait.After[0] != "say" {
		t.Errorf("the steps are %+v", w.Steps)
	}
	if _, err := c.RetryWorkflow(t.Context(), task.Ref{ID: r.ID}, ""); !errors.Is(err, client.ErrNotAllowed) {
		t.Errorf("a workflow that waits is retried: %v", err)
	}
	if tree, err := c.CancelTree(t.Context(), r.ID, "no need"); err != nil || tree.Cancelled != 1 {
		t.Errorf("%+v, %v", tree, err)
	}
	if w, err = c.RetryWorkflow(t.Context(), task.Ref{ID: r.ID}, ""); err != nil || w.Retries != 1 {
		t.Errorf("%+v, %v", w, err)
	}
	if _, _, err := c.Signal(t.Context(), client.Signal{Task: r.ID, Name: "go", Keep: true}); err != nil {
		t.Error(err)
	}
	if w = until("done"); string(w.Output) != "[7]" || w.Task.State != client.StateDone {
		t.Errorf("%+v", w)
	}
	if _, err := c.Workflow(t.Context(), task.ID{1}); !errors.Is(err, client.ErrNotFound) {
		t.Errorf("no workflow: %v", err)
	}
}
