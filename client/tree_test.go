package client_test

import (
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/taskengine/taskengine/client"
	"github.com/taskengine/taskengine/task"
)

func TestATreeIsReadAndCancelled(t *testing.T) {
	c, _ := newClient(t)
	root, err := c.Submit(t.Context(), "tree", nil)
	if err != nil {
		t.Fatal(err)
	}
	for {
		one, err := c.Get(t.Context(), root.ID)
		if err != nil {
			t.Fatal(err)
		}
		if one.State == client.StateWaiting {
			if want := []client.ChildSet{{Name: "page", Added: 3, Awaits: 3}}; !reflect.DeepEqual(one.Children, want) {
				t.Errorf("the children are %+v", one.Children)
			}
			break
		}
		time.Sleep(time.Millisecond)
	}
	why, err := c.Why(t.Context(), root.ID)
	if err != nil || len(why) != 1 || why[0].Code != client.ReasonChildren || why[0].Max != 3 || len(why[0].Holders) != 3 {
		t.Errorf("why: %+v, %v", why, err)
	}
	below, next, err := c.Tree(t.Context(), root.ID, 3, "")
	if err != nil || next == "" || len(below) != 3 || below[0].Depth != 0 || below[2].Depth != 1 {
		t.Fatalf("the tree is %+v, %q, %v", below, next, err)
	}
	if rest, next, err := c.Tree(t.Context(), root.ID, 3, next); err != nil || next != "" || len(rest) != 1 || rest[0].Task.Parent.Index != 2 {
		t.Errorf("the rest of the tree is %+v, %q, %v", rest, next, err)
	}
	if want := (task.Parent{ID: root.ID, Name: "page", Index: 1}); *below[2].Task.Parent != want || below[2].Task.ID != want.Child() {
		t.Errorf("the second child is %+v", below[2].Task)
	}
	for _, want := range []uint64{4, 0} {
		tree, err := c.CancelTree(t.Context(), root.ID, "no need")
		if err != nil || tree.Cancelled != want || tree.Missing != 0 || tree.Task.Error != "no need" {
			t.Errorf("it says %+v, %v", tree, err)
		}
	}
	if _, err := c.CancelTree(t.Context(), task.ID{1}, ""); !errors.Is(err, client.ErrNotFound) {
		t.Errorf("of no task it says %v", err)
	}
	if _, _, err := c.Tree(t.Context(), task.ID{1}, 0, ""); !errors.Is(err, client.ErrNotFound) {
		t.Errorf("of no task it says %v", err)
	}
}

func TestATaskIsSubmittedWithItsChildren(t *testing.T) {
	c, _ := newClient(t)
	of := func(typ string) client.Request { return client.Request{Type: typ} }
	parent := of("echo")
	parent.Key = "family"
	first, err := c.SubmitWithChildren(t.Context(), parent, []client.Request{of("echo"), of("echo")}, client.ChildrenOptions{Name: "page"})
	if err != nil || !first.Created {
		t.Fatalf("%+v, %v", first, err)
	}
	again, err := c.SubmitWithChildren(t.Context(), parent, []client.Request{of("echo")}, client.ChildrenOptions{})
	if err != nil || again.Created || again.ID != first.ID {
		t.Errorf("the same key again: %+v, %v", again, err)
	}
	got, err := c.Wait(t.Context(), first.ID)
	if err != nil || got.State != client.StateDone {
		t.Errorf("it ends as %+v, %v", got, err)
	}
	child, err := c.Get(t.Context(), task.Parent{ID: first.ID, Name: "page", Index: 1}.Child())
	if err != nil || child.State != client.StateDone {
		t.Errorf("a child is %+v, %v", child, err)
	}
	invalid := of("echo")
	invalid.Key = "k"
	if _, err := c.SubmitWithChildren(t.Context(), of("echo"), []client.Request{invalid}, client.ChildrenOptions{}); !errors.Is(err, client.ErrInvalid) {
		t.Errorf("a child with a key: %v", err)
	}
}
