package server_test

import (
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
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
	if got := get(parent); string(got.GetResult()) != "children" || got.GetChildren() != nil {
		t.Errorf("it is %v", got)
	}
}
