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
	below, isCut, err := c.Tree(t.Context(), root.ID, 3)
	if err != nil || !isCut || len(below) != 3 || below[0].Depth != 0 || below[2].Depth != 1 {
		t.Fatalf("the tree is %+v, %v, %v", below, isCut, err)
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
	if _, _, err := c.Tree(t.Context(), task.ID{1}, 0); !errors.Is(err, client.ErrNotFound) {
		t.Errorf("of no task it says %v", err)
	}
}
