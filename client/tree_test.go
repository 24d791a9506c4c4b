package client_test

import (
	"errors"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/taskengine/taskengine/client"
	"github.com/taskengine/taskengine/engine"
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

func TestMoreChildrenThanARequestMayHaveAreAddedInSeveral(t *testing.T) {
	c, _ := newClient(t)
	of := func(typ string) client.Request { return client.Request{Type: typ} }
	children := make([]client.Request, client.MaxChildren+2)
	for i := range children {
		children[i] = of("echo")
	}
	parent := of("echo")
	parent.Key = "large family"
	for try := range 2 {
		receipt, err := c.SubmitWithChildren(t.Context(), parent, children, client.ChildrenOptions{Name: "page", Count: uint32(len(children))})
		if err != nil || receipt.Created != (try == 0) {
			t.Fatalf("try %d: %+v, %v", try, receipt, err)
		}
		got, err := c.Wait(t.Context(), receipt.ID)
		if err != nil || got.State != client.StateDone || len(got.Children) != 1 || int(got.Children[0].Done) != len(children) {
			t.Errorf("try %d: it ends as %+v, %v", try, got, err)
		}
	}
}

// The request of the first part was made, and then the caller was lost.
func TestChildrenOfACallerThatWasLostAreContinued(t *testing.T) {
	for name, count := range map[string]int{"in several requests": client.MaxChildren + 1, "in one": 5, "as they are": 3} {
		t.Run(name, func(t *testing.T) { continueChildren(t, count) })
	}
}

func continueChildren(t *testing.T, count int) {
	c, n := newClient(t)
	id := task.ID{1, 2, 3, 4}
	first := []engine.Request{{Type: "echo"}, {Type: "echo"}, {Type: "echo"}}
	_, err := n.engine.Submit(t.Context(), engine.Request{ID: id, Type: "echo", Children: &task.NewChildren{Sets: []task.ChildRequests{{Name: "child", Requests: first}}, Open: true}})
	if err != nil {
		t.Fatal(err)
	}
	all := make([]client.Request, client.MaxChildren+1)
	for i := range all {
		all[i] = client.Request{Type: "echo"}
	}
	if _, err := c.SubmitWithChildren(t.Context(), client.Request{ID: id, Type: "echo"}, all[:2], client.ChildrenOptions{}); !errors.Is(err, client.ErrNotAllowed) {
		t.Errorf("with fewer children than it has: %v", err)
	}
	receipt, err := c.SubmitWithChildren(t.Context(), client.Request{ID: id, Type: "echo"}, all[:count], client.ChildrenOptions{OrFailed: true})
	if err != nil || receipt.Created || receipt.ID != id {
		t.Fatalf("%+v, %v", receipt, err)
	}
	got, err := c.Wait(t.Context(), id)
	if err != nil || got.State != client.StateDone || int(got.Children[0].Done) != count || got.Children[0].Open {
		t.Errorf("it ends as %+v, %v", got, err)
	}
}

func TestChildrenAreLeftOpenAddedAndClosed(t *testing.T) {
	c, _ := newClient(t)
	of := func(n int) []client.Request { return slices.Repeat([]client.Request{{Type: "echo"}}, n) }
	parent := client.Request{Type: "echo", Key: "open"}
	var id task.ID
	for try := range 2 {
		r, err := c.SubmitOpen(t.Context(), parent, of(2), client.ChildrenOptions{Name: "page"})
		if err != nil || r.Created != (try == 0) {
			t.Fatalf("try %d: %+v, %v", try, r, err)
		}
		id = r.ID
	}
	for _, one := range []struct {
		from, n, added uint32
	}{{2, 0, 2}, {2, 3, 5}, {2, 3, 5}, {4, 2, 6}, {6, client.MaxChildren + 1, client.MaxChildren + 7}} {
		got, err := c.AddChildren(t.Context(), id, one.from, of(int(one.n)), "page")
		if err != nil || got != (client.ChildrenAdded{Added: one.added, Open: true}) {
			t.Errorf("%+v: %+v, %v", one, got, err)
		}
	}
	if got, err := c.Get(t.Context(), id); err != nil || got.State != client.StateWaiting || !got.Children[0].Open {
		t.Errorf("it is %+v, %v", got, err)
	}
	const all = client.MaxChildren + 9
	for _, state := range []client.State{client.StateWaiting, client.StateDone} {
		got, err := c.CloseChildren(t.Context(), id, all-2, of(2), client.ChildrenOptions{Name: "page", Count: all})
		if err != nil || got != (client.ChildrenAdded{Added: all}) {
			t.Errorf("closed when it is %s: %+v, %v", state, got, err)
		}
		ended, err := c.Wait(t.Context(), id)
		if err != nil || ended.State != client.StateDone || ended.Children[0].Done != all {
			t.Fatalf("it ends as %+v, %v", ended, err)
		}
	}
}

func TestWhyChildrenAreRefusedIsAnErrorOfItsOwn(t *testing.T) {
	c, _ := newClient(t)
	one := []client.Request{{Type: "idle"}}
	open := func() task.ID {
		t.Helper()
		r, err := c.SubmitOpen(t.Context(), client.Request{Type: "echo"}, nil, client.ChildrenOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return r.ID
	}
	closed, ended, other := open(), open(), open()
	if _, err := c.CloseChildren(t.Context(), closed, 0, one, client.ChildrenOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.CancelTree(t.Context(), ended, ""); err != nil {
		t.Fatal(err)
	}
	for _, r := range []struct {
		id    task.ID
		from  uint32
		kinds []error
	}{
		{closed, 1, []error{client.ErrChildrenClosed, client.ErrNotAllowed}},
		{ended, 0, []error{client.ErrTaskEnded, client.ErrNotAllowed}},
		{other, 1 << 20, []error{client.ErrTooManyChildren, client.ErrInvalid}},
		{other, 1, []error{client.ErrNotAllowed}},
		{task.ID{1, 2, 3}, 0, []error{client.ErrNotFound}},
	} {
		_, err := c.AddChildren(t.Context(), r.id, r.from, one, "")
		for _, kind := range []error{client.ErrChildrenClosed, client.ErrTaskEnded, client.ErrTooManyChildren, client.ErrNotAllowed, client.ErrInvalid, client.ErrNotFound} {
			if errors.Is(err, kind) != slices.Contains(r.kinds, kind) {
				t.Errorf("children from %d on: %v, and it is %v: %t", r.from, err, kind, errors.Is(err, kind))
			}
		}
	}
	if _, err := c.CloseChildren(t.Context(), other, 0, nil, client.ChildrenOptions{Until: time.Now()}); !errors.Is(err, client.ErrInvalid) {
		t.Errorf("closed with an end of the wait: %v", err)
	}
	if _, err := c.SubmitOpen(t.Context(), client.Request{Type: "echo"}, nil, client.ChildrenOptions{Count: 1}); !errors.Is(err, client.ErrInvalid) {
		t.Errorf("open with a count: %v", err)
	}
	if _, err := c.AddChildren(t.Context(), other, 0, []client.Request{{Type: "idle", Key: "k"}}, ""); !errors.Is(err, client.ErrInvalid) {
		t.Errorf("a child with a key: %v", err)
	}
}
