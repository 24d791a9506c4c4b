package cli

import (
	"context"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/taskengine/taskengine/cmd/taskengine/internal/exit"
	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
	"github.com/taskengine/taskengine/server/proto/taskengine/v1/taskenginev1connect"
)

// familyNode keeps the last request for a task with children.
type familyNode struct {
	taskenginev1connect.UnimplementedTaskServiceHandler
	got *taskenginev1.SubmitWithChildrenRequest
}

func (n *familyNode) SubmitWithChildren(_ context.Context, req *taskenginev1.SubmitWithChildrenRequest) (*taskenginev1.SubmitWithChildrenResponse, error) {
	n.got = req
	return &taskenginev1.SubmitWithChildrenResponse{Receipt: &taskenginev1.Receipt{Id: req.GetTask().GetId(), Created: true, Outcome: "created"}}, nil
}

func TestATaskIsAddedWithTheChildrenInAFile(t *testing.T) {
	n := new(familyNode)
	_, h := taskenginev1connect.NewTaskServiceHandler(n)
	s := httptest.NewServer(h)
	defer s.Close()
	env := []string{"TASKENGINE_ADDRESS=" + s.Listener.Addr().String()}
	file := filepath.Join(t.TempDir(), "children")
	if err := os.WriteFile(file, []byte("{\"type\": \"page\", \"data\": 1}\n\n{\"type\": \"page\", \"priority\": 2}"), 0o600); err != nil {
		t.Fatal(err)
	}
	got := cli(t, env, "", strings.Fields("task add report --data 5 --key k --children "+file+" --children-name page --count 1 --or-failed --until 2030-01-02T00:00:00Z -o json")...)
	if got.code != exit.OK || !strings.Contains(got.stdout, `"outcome":"created"`) {
		t.Fatalf("it says %+v", got)
	}
	want := &taskenginev1.SubmitWithChildrenRequest{
		Task: &taskenginev1.NewTask{Id: n.got.GetTask().GetId(), Type: "report", Key: "k", Input: &taskenginev1.NewTask_Payload{Payload: []byte("5")}},
		Children: []*taskenginev1.NewTask{
			{Type: "page", Input: &taskenginev1.NewTask_Payload{Payload: []byte("1")}}, {Type: "page", Priority: proto.Uint32(2)},
		},
		Name: "page", Count: 1, OrFailed: true, Until: n.got.GetUntil(),
	}
	if !proto.Equal(n.got, want) || n.got.GetUntil().AsTime().Year() != 2030 || n.got.GetTask().GetId() == "" {
		t.Errorf("it sends %v, want %v", n.got, want)
	}
	n.got = nil
	for args, said := range map[string]string{
		"add x --count 2":           "--count goes with --children",
		"add --file f --children g": "--children does not go with --file",
		"add x --children -":        "line 2 of the children: no task",
		"add x --children /is/not":  "/is/not",
	} {
		if got := cli(t, env, "{\"type\": \"page\"}\n{\"typ\": \"page\"}", append([]string{"task"}, strings.Fields(args)...)...); got.code == exit.OK || !strings.Contains(got.stderr, said) {
			t.Errorf("task %s: %+v", args, got)
		}
	}
	if n.got != nil {
		t.Errorf("it sends %v", n.got)
	}
}
