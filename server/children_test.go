package server_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/taskengine/taskengine/internal/access"
	"github.com/taskengine/taskengine/server"
	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
	"github.com/taskengine/taskengine/server/proto/taskengine/v1/taskenginev1connect"
	"github.com/taskengine/taskengine/task"
)

func TestATaskIsShownWithItsParentAndItsChildren(t *testing.T) {
	n := newNode(t)
	c := n.client(t)
	parent := n.submit(t, &taskenginev1.NewTask{Type: "tree"})
	id, err := task.ParseID(parent)
	if err != nil {
		t.Fatal(err)
	}
	child := func(index uint32) string { return task.Parent{ID: id, Name: "page", Index: index}.Child().String() }
	get := func(id string) *taskenginev1.Task {
		t.Helper()
		res, err := c.Get(t.Context(), &taskenginev1.GetRequest{Id: id})
		if err != nil {
			t.Fatal(err)
		}
		return res.GetTask()
	}
	n.until(t, parent, "waiting")
	n.until(t, child(1), "error")
	for get(parent).GetChildren()[0].GetDone() == 0 { // the report follows the end
		time.Sleep(time.Millisecond)
	}
	got := get(parent)
	if want := (&taskenginev1.ChildSet{Name: "page", Added: 3, Done: 1, Awaits: 2}); len(got.GetChildren()) != 1 || !proto.Equal(got.GetChildren()[0], want) {
		t.Errorf("it has the children %v, want %v", got.GetChildren(), want)
	}
	if got.GetAwaits()[0] != task.AwaitsChildren || got.GetParent() != nil {
		t.Errorf("it awaits %v, and its parent is %v", got.GetAwaits(), got.GetParent())
	}
	want := &taskenginev1.Parent{Id: parent, Name: "page", Index: 2}
	if got := get(child(2)); !proto.Equal(got.GetParent(), want) {
		t.Errorf("the parent of a child is %v, want %v", got.GetParent(), want)
	}
	list, err := c.List(t.Context(), &taskenginev1.ListRequest{Types: []string{"tree", "idle"}})
	if err != nil || len(list.GetTasks()) != 2 {
		t.Fatalf("it lists %v, %v", list.GetTasks(), err)
	}
	for _, one := range list.GetTasks() {
		if one.GetChildren() != nil || one.GetType() == "idle" && !proto.Equal(one.GetParent(), want) {
			t.Errorf("a list has %v", one)
		}
	}
	if _, err := c.Fail(t.Context(), &taskenginev1.FailRequest{Id: child(1)}); err != nil {
		t.Error(err)
	}
	if got := n.settle(t, parent); got.GetState() != "done" {
		t.Errorf("it is %v", got)
	}
	if got := get(parent); string(got.GetResult()) != "children" || got.GetChildren()[0].GetDone() != 1 || got.GetChildren()[0].GetFailed() != 1 || got.GetChildren()[0].GetAwaits() != 0 {
		t.Errorf("it is %v", got)
	}
}

func TestATaskIsSubmittedWithItsChildren(t *testing.T) {
	n := newNode(t)
	c := n.client(t)
	echo := &taskenginev1.NewTask{Type: "echo", Input: &taskenginev1.NewTask_Text{Text: "1"}}
	req := &taskenginev1.SubmitWithChildrenRequest{
		Task: &taskenginev1.NewTask{Type: "echo", Key: "k", Input: &taskenginev1.NewTask_Text{Text: "all"}}, Children: []*taskenginev1.NewTask{echo, {Type: "idle"}},
	}
	res, err := c.SubmitWithChildren(t.Context(), req)
	if err != nil || !res.GetReceipt().GetCreated() {
		t.Fatalf("%v, %v", res, err)
	}
	id := res.GetReceipt().GetId()
	if again, err := c.SubmitWithChildren(t.Context(), req); err != nil || again.GetReceipt().GetCreated() || again.GetReceipt().GetId() != id {
		t.Errorf("the same key again: %v, %v", again, err)
	}
	tree := func() []*taskenginev1.TreeTask {
		res, err := c.Tree(t.Context(), &taskenginev1.TreeRequest{Id: id})
		if err != nil {
			t.Fatal(err)
		}
		return res.GetTasks()
	}
	for tree()[0].GetTask().GetChildren()[0].GetDone() == 0 { // the report follows the end
		time.Sleep(time.Millisecond)
	}
	got := tree()
	if want := (&taskenginev1.ChildSet{Name: "child", Added: 2, Done: 1, Awaits: 2}); len(got) != 3 || !proto.Equal(got[0].GetTask().GetChildren()[0], want) {
		t.Errorf("the tree is %v", got)
	}
	if _, err := c.Cancel(t.Context(), &taskenginev1.CancelRequest{Id: got[2].GetTask().GetId()}); err != nil {
		t.Error(err)
	}
	if got := n.settle(t, id); got.GetState() != "done" {
		t.Errorf("it is %v", got)
	}
	empty, err := c.SubmitWithChildren(t.Context(), &taskenginev1.SubmitWithChildrenRequest{Task: echo, Name: "none"})
	if err != nil {
		t.Fatal(err)
	}
	if got := n.settle(t, empty.GetReceipt().GetId()); got.GetState() != "done" {
		t.Errorf("one without children is %v", got)
	}
	for why, req := range map[string]*taskenginev1.SubmitWithChildrenRequest{
		"task is missing":                       {},
		"of 10000 allowed":                      {Task: echo, Children: make([]*taskenginev1.NewTask, 10001)},
		"child 1: invalid request: priority is": {Task: echo, Children: []*taskenginev1.NewTask{echo, {Type: "echo", Priority: proto.Uint32(10)}}},
		"has an id or a key":                    {Task: echo, Children: []*taskenginev1.NewTask{{Type: "echo", Key: "k"}}},
		"waits for 2 children":                  {Task: echo, Children: []*taskenginev1.NewTask{echo}, Count: 2},
		"and a time":                            {Task: &taskenginev1.NewTask{Type: "echo", In: durationpb.New(time.Hour)}, Children: []*taskenginev1.NewTask{echo}},
	} {
		if _, err := c.SubmitWithChildren(t.Context(), req); connect.CodeOf(err) != connect.CodeInvalidArgument || !strings.Contains(err.Error(), why) {
			t.Errorf("it says %v, want %q", err, why)
		}
	}
}

func TestChildrenAreAddedInSeveralRequests(t *testing.T) {
	n := newNode(t)
	c := n.client(t)
	echo := &taskenginev1.NewTask{Type: "echo", Input: &taskenginev1.NewTask_Text{Text: "1"}}
	two := []*taskenginev1.NewTask{echo, echo}
	res, err := c.SubmitWithChildren(t.Context(), &taskenginev1.SubmitWithChildrenRequest{Task: echo, Children: two, Open: true})
	if err != nil {
		t.Fatal(err)
	}
	id := res.GetReceipt().GetId()
	add := func(req *taskenginev1.AddChildrenRequest, want *taskenginev1.AddChildrenResponse) {
		t.Helper()
		req.Id = id
		if got, err := c.AddChildren(t.Context(), req); err != nil || !proto.Equal(got, want) {
			t.Errorf("%v: %v, %v", req, got, err)
		}
	}
	again := func(task *taskenginev1.NewTask, name string, isOpen bool) {
		t.Helper()
		task.Id = id
		req := &taskenginev1.SubmitWithChildrenRequest{Task: task, Name: name, Children: two}
		if res, err := c.SubmitWithChildren(t.Context(), req); err != nil || res.GetReceipt().GetCreated() || res.GetOpen() != isOpen {
			t.Errorf("the request again, with children %q of a task of type %s: %v, %v", name, task.GetType(), res, err)
		}
	}
	if !res.GetOpen() {
		t.Error("a task with open children takes no more")
	}
	again(&taskenginev1.NewTask{Type: "echo"}, "", true)
	again(&taskenginev1.NewTask{Type: "echo"}, "other", false)
	again(&taskenginev1.NewTask{Type: "idle"}, "", false)
	add(&taskenginev1.AddChildrenRequest{From: 2, Children: two}, &taskenginev1.AddChildrenResponse{Added: 4, Open: true})
	add(&taskenginev1.AddChildrenRequest{From: 2, Children: two}, &taskenginev1.AddChildrenResponse{Added: 4, Open: true})
	got, err := c.Get(t.Context(), &taskenginev1.GetRequest{Id: id})
	if set := got.GetTask().GetChildren(); err != nil || len(set) != 1 || !set[0].GetOpen() || set[0].GetAwaits() != 0 || set[0].GetAdded() != 4 {
		t.Errorf("it has %v, %v", set, err)
	}
	for why, req := range map[string]*taskenginev1.AddChildrenRequest{
		"has the number 4, not 5":               {Id: id, From: 5},
		"take no more":                          {Id: id, Name: "other", Children: two},
		"of 10000 allowed":                      {Id: id, Children: make([]*taskenginev1.NewTask, 10001)},
		"child 5: invalid request: priority is": {Id: id, From: 4, Children: []*taskenginev1.NewTask{echo, {Type: "echo", Priority: proto.Uint32(10)}}},
		"not a task id":                         {Id: "x"},
	} {
		want, reason := connect.CodeInvalidArgument, map[string]string{"take no more": "children_closed", "of 10000 allowed": "too_many_children"}[why]
		if strings.Contains(why, "number") || strings.Contains(why, "no more") {
			want, req.Children = connect.CodeFailedPrecondition, two
		}
		_, err := c.AddChildren(t.Context(), req)
		var answer *connect.Error
		if !errors.As(err, &answer) || answer.Code() != want || !strings.Contains(err.Error(), why) || answer.Meta().Get(server.ReasonHeader) != reason {
			t.Errorf("it says %v, want %q with the reason %q", err, why, reason)
		}
	}
	if _, err := c.SubmitWithChildren(t.Context(), &taskenginev1.SubmitWithChildrenRequest{Task: echo, Open: true, Count: 1}); connect.CodeOf(err) != connect.CodeInvalidArgument {
		t.Errorf("open children with a count: %v", err)
	}
	add(&taskenginev1.AddChildrenRequest{From: 4, Children: two, Close: true}, &taskenginev1.AddChildrenResponse{Added: 6})
	if got := n.settle(t, id); got.GetState() != "done" {
		t.Errorf("it is %v", got)
	}
	again(&taskenginev1.NewTask{Type: "echo"}, "", false)
	add(&taskenginev1.AddChildrenRequest{From: 4, Children: two, Close: true}, &taskenginev1.AddChildrenResponse{Added: 6})
	var ended *connect.Error
	if _, err := c.AddChildren(t.Context(), &taskenginev1.AddChildrenRequest{Id: id, From: 6, Children: two}); !errors.As(err, &ended) || ended.Meta().Get(server.ReasonHeader) != "task_ended" {
		t.Errorf("after the end: %v", err)
	}
}

func TestATokenForATaskIsNotForTheChildrenThatItIsSubmittedWith(t *testing.T) {
	g := newGuarded(t, of("echo", access.Submit, "echo"))
	c := g.library(t, g.tcp.Addr().String())
	for typ, want := range map[string]codes.Code{"echo": codes.OK, "idle": codes.PermissionDenied} {
		req := &taskenginev1.SubmitWithChildrenRequest{Task: &taskenginev1.NewTask{Type: "echo"}, Children: []*taskenginev1.NewTask{{Type: "echo"}, {Type: typ}}}
		err := c.Invoke(withToken(t.Context(), "echo"), taskenginev1connect.TaskServiceSubmitWithChildrenProcedure, req, new(taskenginev1.SubmitWithChildrenResponse))
		if status.Code(err) != want {
			t.Errorf("with a child of type %s: %v", typ, err)
		}
	}
	res := new(taskenginev1.SubmitWithChildrenResponse)
	open := &taskenginev1.SubmitWithChildrenRequest{Task: &taskenginev1.NewTask{Type: "echo"}, Open: true}
	if err := c.Invoke(withToken(t.Context(), "echo"), taskenginev1connect.TaskServiceSubmitWithChildrenProcedure, open, res); err != nil {
		t.Fatal(err)
	}
	for typ, want := range map[string]codes.Code{"echo": codes.OK, "idle": codes.PermissionDenied} {
		req := &taskenginev1.AddChildrenRequest{Id: res.GetReceipt().GetId(), Children: []*taskenginev1.NewTask{{Type: typ}}}
		if err := c.Invoke(withToken(t.Context(), "echo"), taskenginev1connect.TaskServiceAddChildrenProcedure, req, new(taskenginev1.AddChildrenResponse)); status.Code(err) != want {
			t.Errorf("one more child of type %s: %v", typ, err)
		}
	}
}
