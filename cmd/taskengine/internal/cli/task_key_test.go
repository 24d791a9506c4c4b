package cli

import (
	"context"
	"errors"
	"net/http/httptest"
	"strings"
	"testing"

	"connectrpc.com/connect"

	"github.com/taskengine/taskengine/cmd/taskengine/internal/exit"
	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
	"github.com/taskengine/taskengine/server/proto/taskengine/v1/taskenginev1connect"
)

// keyedNode is a node that has a task of the type mail with the key k, within the ordering key o. It lists all tasks,
// whatever it is asked for, as a node of the version before does.
type keyedNode struct {
	taskenginev1connect.UnimplementedTaskServiceHandler
}

func (keyedNode) Get(_ context.Context, req *taskenginev1.GetRequest) (*taskenginev1.GetResponse, error) {
	if req.GetId() == "i" || req.GetType() == "mail" && req.GetKey() == "k" && req.GetOrderingKey() == "o" {
		return &taskenginev1.GetResponse{Task: &taskenginev1.Task{Id: "i", Key: "k"}}, nil
	}
	return nil, connect.NewError(connect.CodeNotFound, errors.New("no task of type mail has the key"))
}

func (keyedNode) List(context.Context, *taskenginev1.ListRequest) (*taskenginev1.ListResponse, error) {
	return &taskenginev1.ListResponse{Tasks: []*taskenginev1.Task{{Id: "h", Key: "other"}, {Id: "i", Key: "k"}, {Id: "j"}}}, nil
}

func TestTasksAreFoundByTheirKeys(t *testing.T) {
	_, h := taskenginev1connect.NewTaskServiceHandler(keyedNode{})
	s := httptest.NewServer(h)
	defer s.Close()
	env := []string{"TASKENGINE_ADDRESS=" + s.Listener.Addr().String()}
	for args, want := range map[string]struct {
		code int
		said string
	}{
		"get i": {exit.OK, `"id":"i"`},
		"get --type mail --key k --ordering-key o": {exit.OK, `"id":"i"`},
		"get --type mail --key k":                  {exit.NotFound, "no task of type mail has the key"},
		"get none":                                 {exit.NotFound, "none"},
		"get --key k":                              {exit.Usage, "--type and --key go together"},
		"get":                                      {exit.Usage, "want an ID, or --type and --key"},
		"get i --type mail --key k":                {exit.Usage, "want an ID, or --type and --key"},
		"get i --ordering-key o":                   {exit.Usage, "want an ID, or --type and --key"},
		"list --key k --type mail --state submitted": {exit.OK, `"id":"i"`},
	} {
		got := cli(t, env, "", append(append([]string{"task"}, strings.Fields(args)...), "--output", "json")...)
		if got.code != want.code || !strings.Contains(got.stdout+got.stderr, want.said) {
			t.Errorf("task %s: %+v", args, got)
		}
		if strings.HasPrefix(args, "list") && strings.Count(got.stdout, "\n") != 1 {
			t.Errorf("it lists %s", got.stdout)
		}
	}
}
