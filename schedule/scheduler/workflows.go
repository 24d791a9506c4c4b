package scheduler

import (
	"errors"
	"fmt"
	"maps"

	"github.com/taskengine/taskengine/schedule"
	"github.com/taskengine/taskengine/task"
)

// Workflows returns the request of a workflow with an input, by the name of the workflow in the configuration of the node. An error wraps
// [ErrNoWorkflow] if the node has no workflow of that name.
type Workflows func(name string, input []byte) (task.Request, error)

// ErrNoWorkflow says that the configuration of a node has no workflow of a name.
var ErrNoWorkflow = errors.New("the configuration of the node has no such workflow")

// complete returns the requests of a schedule as they are submitted: a workflow gets the definition that this node has now.
func (w Workflows) complete(t *schedule.Template, requests []task.Request) ([]task.Request, error) {
	if t.Workflow == "" {
		return requests, nil
	}
	for i := range requests {
		r, err := w.request(t.Workflow, requests[i].Payload)
		if errors.Is(err, ErrNoWorkflow) { // another node may have it
			return nil, task.RetryIn(askAgain, err)
		}
		if err != nil {
			return nil, err
		}
		maps.Copy(requests[i].Headers, r.Headers)
		requests[i].Payload = r.Payload
	}
	return requests, nil
}

func (w Workflows) request(name string, input []byte) (task.Request, error) {
	if w == nil {
		return task.Request{}, fmt.Errorf("%w: %s", ErrNoWorkflow, name)
	}
	return w(name, input)
}

// has reports whether the node can add the tasks of a template.
func (w Workflows) has(t *schedule.Template) bool {
	if t.Workflow == "" {
		return true
	}
	_, err := w.request(t.Workflow, t.SampleInput())
	return !errors.Is(err, ErrNoWorkflow)
}
