package client

import (
	"context"

	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
	"github.com/taskengine/taskengine/server/proto/taskengine/v1/taskenginev1connect"
)

// TaskType is a type of tasks as the node that was asked has it.
type TaskType struct {
	Name       string
	Configured bool
	Handled    bool   // the node has a handler for the type
	Paused     bool   // its tasks are not started
	Running    uint32 // its tasks with a slot of the node

	// Nodes says which nodes may run the type: labels and their values, such as "gpu=true, zone=eu|us". Empty is all nodes.
	Nodes string

	RunBy []string // the names of the live nodes that start tasks of the type
}

// TaskTypes returns the types that are configured, were paused or resumed, or have tasks, by name. With a store in files, types that have only
// ended tasks are left out. If more is true, there may be types that are not configured and have tasks, and are left out.
func (c *Client) TaskTypes(ctx context.Context) (types []*TaskType, more bool, err error) {
	res, err := call[taskenginev1.ListTypesResponse](ctx, c, taskenginev1connect.TaskServiceListTypesProcedure, &taskenginev1.ListTypesRequest{}, true)
	if err != nil {
		return nil, false, err
	}
	return all(res.GetTypes(), taskTypeOf), res.GetMore(), nil
}

// PauseType keeps tasks of a type from being started on all nodes, also over restarts, until ResumeType. Running tasks go on, and new tasks
// are accepted.
func (c *Client) PauseType(ctx context.Context, typ string) error {
	_, err := call[taskenginev1.PauseTypeResponse](ctx, c, taskenginev1connect.TaskServicePauseTypeProcedure, &taskenginev1.PauseTypeRequest{Type: typ}, true)
	return err
}

// ResumeType lets tasks of a type be started again.
func (c *Client) ResumeType(ctx context.Context, typ string) error {
	_, err := call[taskenginev1.ResumeTypeResponse](ctx, c, taskenginev1connect.TaskServiceResumeTypeProcedure, &taskenginev1.ResumeTypeRequest{Type: typ}, true)
	return err
}

func taskTypeOf(m *taskenginev1.Type) *TaskType {
	return &TaskType{
		Name: m.GetName(), Configured: m.GetConfigured(), Handled: m.GetHandled(), Paused: m.GetPaused(), Running: m.GetRunning(),
		Nodes: m.GetNodes(), RunBy: m.GetRunBy(),
	}
}
