package server_test

import (
	"slices"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/taskengine/taskengine/internal/access"
	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
	"github.com/taskengine/taskengine/server/proto/taskengine/v1/taskenginev1connect"
	"github.com/taskengine/taskengine/task"
)

// planted submits a task of the type tree, and returns its id and that of its last child, when its children have ended that do.
func planted(t *testing.T, n *node) (root, last string) {
	t.Helper()
	root = n.submit(t, &taskenginev1.NewTask{Type: "tree"})
	id, err := task.ParseID(root)
	if err != nil {
		t.Fatal(err)
	}
	child := func(index uint32) string { return task.Parent{ID: id, Name: "page", Index: index}.Child().String() }
	n.until(t, root, "waiting")
	n.until(t, child(0), "done")
	n.until(t, child(1), "error")
	return root, child(2)
}

func TestATreeIsReadAndCancelled(t *testing.T) {
	n := newNode(t)
	c := n.client(t)
	root, last := planted(t, n)
	tree := func(limit uint32) *taskenginev1.TreeResponse {
		t.Helper()
		res, err := c.Tree(t.Context(), &taskenginev1.TreeRequest{Id: root, Limit: limit})
		if err != nil {
			t.Fatal(err)
		}
		return res
	}
	states := func(res *taskenginev1.TreeResponse) (all []string) {
		for i, one := range res.GetTasks() {
			if all = append(all, one.GetTask().GetState()); one.GetDepth() != uint32(min(i, 1)) || len(one.GetTask().GetPayload()) > 0 {
				t.Errorf("task %d is %v", i, one)
			}
		}
		return all
	}
	for limit, want := range map[uint32]string{0: "waiting done error submitted", 4: "waiting done error submitted", 3: "waiting done error"} {
		res := tree(limit)
		if got := strings.Join(states(res), " "); got != want || (res.GetNextPageToken() != "") != (limit == 3) || len(res.GetTasks()[0].GetTask().GetChildren()) != 1 {
			t.Errorf("the tree up to %d is %s: %v", limit, got, res)
		}
	}
	var paged []string
	for token := ""; ; {
		res, err := c.Tree(t.Context(), &taskenginev1.TreeRequest{Id: root, Limit: 1, PageToken: token})
		if err != nil || len(res.GetTasks()) != 1 {
			t.Fatalf("a page: %v, %v", res, err)
		}
		paged = append(paged, res.GetTasks()[0].GetTask().GetState())
		if token = res.GetNextPageToken(); token == "" {
			break
		}
	}
	if got := strings.Join(paged, " "); got != "waiting done error submitted" {
		t.Errorf("page by page it is %s", got)
	}
	for req, want := range map[*taskenginev1.TreeRequest]connect.Code{
		{Id: root, Limit: 1001}:                      connect.CodeInvalidArgument,
		{Id: root, PageToken: "x"}:                   connect.CodeInvalidArgument,
		{Id: root, PageToken: "AP8"}:                 connect.CodeInvalidArgument,
		{Id: root, PageToken: "AQE"}:                 connect.CodeInvalidArgument,
		{Id: "0192d1c4-5a6b-7c8d-9e0f-112233445566"}: connect.CodeNotFound,
	} {
		if _, err := c.Tree(t.Context(), req); connect.CodeOf(err) != want {
			t.Errorf("%v: %v, want %v", req, err, want)
		}
	}
	if _, err := c.Cancel(t.Context(), &taskenginev1.CancelRequest{Id: root, Tree: true, Version: 1}); connect.CodeOf(err) != connect.CodeInvalidArgument {
		t.Errorf("with a version it says %v", err)
	}
	late := n.submit(t, &taskenginev1.NewTask{Type: "echo", After: []string{root, last}})
	if res, err := c.Tree(t.Context(), &taskenginev1.TreeRequest{Id: late}); err != nil || !slices.Equal(res.GetTasks()[0].GetTask().GetAfter().GetTasks(), []string{root, last}) {
		t.Errorf("the tree of a task after others is %v, %v", res, err)
	}
	for _, want := range []uint64{3, 0} {
		res, err := c.Cancel(t.Context(), &taskenginev1.CancelRequest{Id: root, Tree: true, Reason: "no need"})
		if err != nil || res.GetCancelled() != want || res.GetMissing() != 0 || res.GetMore() || res.GetTask().GetState() != "cancelled" {
			t.Errorf("it says %v, %v, want %d", res, err, want)
		}
	}
	if got := strings.Join(states(tree(0)), " "); got != "cancelled done cancelled cancelled" {
		t.Errorf("the states are %s", got)
	}
	if got := n.until(t, last, "cancelled"); got.GetError() != "no need" {
		t.Errorf("the last child is %v", got)
	}
	done := n.submit(t, &taskenginev1.NewTask{Type: "echo"})
	n.settle(t, done)
	if _, err := c.Cancel(t.Context(), &taskenginev1.CancelRequest{Id: done, Tree: true}); connect.CodeOf(err) != connect.CodeFailedPrecondition {
		t.Errorf("of a task that is done it says %v", err)
	}
}

// A token that is for the type of the root, and not for that of a task below, neither sees nor cancels that task.
func TestATokenForTheRootOfATreeIsNotForItsOtherTypes(t *testing.T) {
	g := newGuarded(t, of("tree", access.Admin, "tree", "echo", "fail"))
	c := g.library(t, g.tcp.Addr().String())
	root, last := planted(t, g.node)
	err := c.Invoke(withToken(t.Context(), "tree"), taskenginev1connect.TaskServiceTreeProcedure, &taskenginev1.TreeRequest{Id: root}, new(taskenginev1.TreeResponse))
	if status.Code(err) != codes.PermissionDenied {
		t.Errorf("tree: %v", err)
	}
	err = c.Invoke(withToken(t.Context(), "tree"), taskenginev1connect.TaskServiceCancelProcedure, &taskenginev1.CancelRequest{Id: root, Tree: true}, new(taskenginev1.CancelResponse))
	if status.Code(err) != codes.PermissionDenied {
		t.Errorf("cancel: %v", err)
	}
	g.until(t, last, "submitted")
}
