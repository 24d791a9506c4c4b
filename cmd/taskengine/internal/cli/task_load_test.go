package cli

import (
	"context"
	"errors"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"connectrpc.com/connect"

	"github.com/taskengine/taskengine/cmd/taskengine/internal/exit"
	"github.com/taskengine/taskengine/server"
	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
	"github.com/taskengine/taskengine/server/proto/taskengine/v1/taskenginev1connect"
)

// fullNode is a node whose first answers are that there is no room.
type fullNode struct {
	taskenginev1connect.UnimplementedTaskServiceHandler
	says  string // the value of server.FullHeader
	asked atomic.Int32
}

func (n *fullNode) Submit(_ context.Context, req *taskenginev1.SubmitRequest) (*taskenginev1.SubmitResponse, error) {
	if n.asked.Add(1) < 3 {
		err := connect.NewError(connect.CodeResourceExhausted, errors.New("the backlog is full"))
		err.Meta().Set(server.FullHeader, n.says)
		return nil, err
	}
	res := new(taskenginev1.SubmitResponse)
	for _, t := range req.GetTasks() {
		res.Receipts = append(res.Receipts, &taskenginev1.Receipt{Id: t.GetId(), Created: true})
	}
	return res, nil
}

func TestAFileWaitsUntilThereIsRoomForItsTasks(t *testing.T) {
	for says, want := range map[string]int{server.FullWaited: exit.OK, server.FullBacklog: exit.Backlog} {
		n := &fullNode{says: says}
		_, h := taskenginev1connect.NewTaskServiceHandler(n)
		s := httptest.NewServer(h)
		got := cli(t, []string{"TASKENGINE_ADDRESS=" + s.Listener.Addr().String()}, `{"type":"mail"}`+"\n", "task", "add", "--file", "-")
		s.Close()
		if got.code != want {
			t.Errorf("%s: exit code %d: %s%s", says, got.code, got.stdout, got.stderr)
		}
	}
}
