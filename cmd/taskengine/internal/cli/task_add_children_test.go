package cli

import (
	"context"
	"errors"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"github.com/taskengine/taskengine/cmd/taskengine/internal/exit"
	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
	"github.com/taskengine/taskengine/server/proto/taskengine/v1/taskenginev1connect"
)

// familyNode keeps the last request for a task with children.
type familyNode struct {
	taskenginev1connect.UnimplementedTaskServiceHandler
	got   *taskenginev1.SubmitWithChildrenRequest
	id    string // of the task; empty: that of the request
	added uint32 // how many children it has
	adds  []*taskenginev1.AddChildrenRequest
	fails bool // all calls that add more

	isClosed bool // the task that is there takes no more
}

func (n *familyNode) SubmitWithChildren(_ context.Context, req *taskenginev1.SubmitWithChildrenRequest) (*taskenginev1.SubmitWithChildrenResponse, error) {
	n.got = req
	if n.id != "" {
		return &taskenginev1.SubmitWithChildrenResponse{Receipt: &taskenginev1.Receipt{Id: n.id, Outcome: "existing"}, Open: !n.isClosed}, nil
	}
	n.added = uint32(len(req.GetChildren()))
	return &taskenginev1.SubmitWithChildrenResponse{Receipt: &taskenginev1.Receipt{Id: req.GetTask().GetId(), Created: true, Outcome: "created"}, Open: req.GetOpen()}, nil
}

func (n *familyNode) AddChildren(_ context.Context, req *taskenginev1.AddChildrenRequest) (*taskenginev1.AddChildrenResponse, error) {
	n.adds = append(n.adds, req)
	if n.fails {
		return nil, connect.NewError(connect.CodeResourceExhausted, errors.New("no room"))
	}
	n.added = max(n.added, req.GetFrom()+uint32(len(req.GetChildren())))
	return &taskenginev1.AddChildrenResponse{Added: n.added, Open: !req.GetClose()}, nil
}

func TestMoreChildrenThanARequestMayHaveAreAddedInSeveral(t *testing.T) {
	for name, c := range map[string]struct {
		node  familyNode
		froms []uint32 // of the requests after the first
		fails bool
	}{
		"new":             {familyNode{}, []uint32{10_000, 20_000}, false},
		"continued":       {familyNode{id: "018df9e2-b200-7000-8e42-d4cae8864908", added: 15_000}, []uint32{0, 15_000}, false},
		"all there":       {familyNode{id: "018df9e2-b200-7000-8e42-d4cae8864908", added: 25_000}, []uint32{0, 25_000}, false},
		"a full backlog":  {familyNode{fails: true}, []uint32{10_000}, true},
		"others as large": {familyNode{id: "018df9e2-b200-7000-8e42-d4cae8864908", added: 99_999}, []uint32{0, 25_000}, false},
	} {
		n := &c.node
		_, h := taskenginev1connect.NewTaskServiceHandler(n)
		s := httptest.NewServer(h)
		got := cli(t, []string{"TASKENGINE_ADDRESS=" + s.Listener.Addr().String()}, strings.Repeat("{\"type\": \"page\"}\n", 25_000), strings.Fields("task add report --key k --children - --count 7")...)
		s.Close()
		if (got.code != exit.OK) != c.fails {
			t.Errorf("%s: it says %+v", name, got)
		}
		if c.fails && !strings.Contains(got.stderr, "10000 of 25000 children of the task") {
			t.Errorf("%s: it says %+v", name, got)
		}
		if !n.got.GetOpen() || n.got.GetCount() != 0 || len(n.got.GetChildren()) != 10_000 {
			t.Errorf("%s: the first request has %d children, open: %t", name, len(n.got.GetChildren()), n.got.GetOpen())
		}
		var froms []uint32
		for _, add := range n.adds {
			froms = append(froms, add.GetFrom())
		}
		if !slices.Equal(froms, c.froms) {
			t.Errorf("%s: the others are from %v, want %v", name, froms, c.froms)
		}
		last := n.adds[len(n.adds)-1]
		if isLast := last.GetFrom()+uint32(len(last.GetChildren())) == 25_000; last.GetClose() != isLast || (last.GetCount() == 7) != isLast || isLast == c.fails {
			t.Errorf("%s: the last request is from %d, close: %t, count: %d", name, last.GetFrom(), last.GetClose(), last.GetCount())
		}
	}
}

// An earlier command was to add more children than one request may have, and was lost.
func TestAShorterListOfChildrenClosesAnOpenTask(t *testing.T) {
	for _, isClosed := range []bool{false, true} {
		n := &familyNode{id: "018df9e2-b200-7000-8e42-d4cae8864908", added: 3, isClosed: isClosed}
		_, h := taskenginev1connect.NewTaskServiceHandler(n)
		s := httptest.NewServer(h)
		got := cli(t, []string{"TASKENGINE_ADDRESS=" + s.Listener.Addr().String()}, strings.Repeat("{\"type\": \"page\"}\n", 5), strings.Fields("task add report --key k --children - --count 4")...)
		s.Close()
		if got.code != exit.OK || n.got.GetOpen() || len(n.got.GetChildren()) != 5 || len(n.adds) == 0 != isClosed {
			t.Fatalf("it says %+v after %v", got, n.adds)
		}
		if isClosed {
			continue
		}
		if last := n.adds[len(n.adds)-1]; last.GetFrom() != 3 || len(last.GetChildren()) != 2 || !last.GetClose() || last.GetCount() != 4 {
			t.Errorf("the last request is %v", last)
		}
	}
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
