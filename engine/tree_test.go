package engine_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

// orchard starts an engine whose tasks of the type tree add children as deep as their payload says, two with the name "a" and one with
// the name "b" each, and wait for them. Those at the bottom run until the engine is closed.
func orchard(t *testing.T) *node {
	t.Helper()
	return start(t, one("tree", nil), handle("tree", func(ctx context.Context, t *task.Task) ([]byte, error) {
		level, _ := strconv.Atoi(string(t.Payload))
		if level == 0 {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		child := task.Request{Type: "tree", Payload: strconv.AppendInt(nil, int64(level-1), 10)}
		return nil, task.WaitForChildren([]task.ChildrenWait{{Name: "a"}}, time.Time{}, task.WithChildren("a", child, child), task.WithChildren("b", child))
	}))
}

// treeStates returns how many tasks of the type tree are in each state.
func (n *node) treeStates() map[task.State]int64 {
	n.t.Helper()
	counts, err := n.Count(context.Background(), storage.Filter{Types: []string{"tree"}})
	if err != nil {
		n.t.Fatal(err)
	}
	states := make(map[task.State]int64)
	for of, count := range counts {
		states[of.State] = int64(count)
	}
	return states
}

func TestATreeIsReadFromTheRootDown(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		n := orchard(t)
		root := n.submit(engine.Request{Type: "tree", Payload: []byte("2")})
		synctest.Wait()
		var got []string
		var ids []task.ID // of the parents, by depth
		for b, err := range n.Tree(t.Context(), root) {
			if err != nil {
				t.Fatal(err)
			}
			ids = append(ids[:b.Depth], b.Task.ID)
			text := fmt.Sprintf("%d %v", b.Depth, b.Task.State)
			if p := b.Task.Parent; p != nil {
				text += fmt.Sprintf(" %s%d %v", p.Name, p.Index, p.ID == ids[b.Depth-1])
			}
			got = append(got, text)
		}
		leaves := func(name string) string {
			return "1 waiting " + name + " true,2 processing a0 true,2 processing a1 true,2 processing b0 true"
		}
		want := "0 waiting," + leaves("a0") + "," + leaves("a1") + "," + leaves("b0")
		if joined := strings.Join(got, ","); joined != want {
			t.Errorf("the tree is %s, want %s", joined, want)
		}
		for b, err := range n.Tree(t.Context(), root) {
			if err != nil || b.Depth > 0 {
				t.Errorf("it goes on with %+v, %v", b, err)
			}
			break
		}
		for b, err := range n.Tree(t.Context(), task.ID{1}) {
			if !errors.Is(err, task.ErrNotFound) {
				t.Errorf("the tree of no task is %+v, %v", b, err)
			}
		}
	})
}

func TestATreeIsCancelledToItsLeaves(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		n := orchard(t)
		root := n.submit(engine.Request{Type: "tree", Payload: []byte("3")})
		synctest.Wait()
		branch, other := childID(root, "a", 1), childID(root, "b", 0)
		if _, err := n.Cancel(t.Context(), task.Ref{ID: branch}, "by hand"); err != nil {
			t.Fatal(err)
		}
		if _, err := n.Fail(t.Context(), task.Ref{ID: childID(other, "a", 0)}, ""); err != nil {
			t.Fatal(err)
		}
		heard := make(map[task.ID]bool)
		tree, err := n.CancelTree(t.Context(), root, engine.TreeCancel{Reason: "no need", Cancelled: func(t *task.Task) { heard[t.ID] = true }})
		if err != nil || tree.Cancelled != 38 || tree.Missing != 0 || tree.Root.State != task.Cancelled || len(heard) != 38 {
			t.Errorf("%d are reported, and it returns %+v, %v", len(heard), tree, err)
		}
		synctest.Wait()
		if states := n.treeStates(); states[task.Cancelled] != 39 || states[task.Failed] != 1 || len(states) != 2 {
			t.Errorf("the states are %v", states)
		}
		if got := n.get(childID(branch, "a", 0)); got.LastError != "no need" {
			t.Errorf("a task below one that was cancelled before is %+v", got)
		}
		tree, err = n.CancelTree(t.Context(), root, engine.TreeCancel{})
		if err != nil || tree.Cancelled != 0 {
			t.Errorf("a second time it returns %+v, %v", tree, err)
		}
	})
}

func TestTheCancelOfATreeGoesOnAfterAnError(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		n := orchard(t)
		root := n.submit(engine.Request{Type: "tree", Payload: []byte("3")})
		synctest.Wait()
		total := 0
		for tries := int32(1); ; tries++ {
			var asked atomic.Int32
			tree, err := n.CancelTree(t.Context(), root, engine.TreeCancel{May: func(*task.Task) error {
				if asked.Add(1) > 7 {
					return errors.New("not so many")
				}
				return nil
			}})
			if total += tree.Cancelled; err == nil {
				break
			}
			if tries > 40 {
				t.Fatal(err)
			}
		}
		if states := n.treeStates(); total != 40 || states[task.Cancelled] != 40 {
			t.Errorf("%d were cancelled, and the states are %v", total, states)
		}
	})
}

// The time of a call ends while it cancels children, several times.
func TestEachTaskOfATreeIsCountedByOneCall(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		n := orchard(t)
		root := n.submit(engine.Request{Type: "tree", Payload: []byte("3")})
		synctest.Wait()
		total, heard := 0, 0
		for tries := 1; ; tries++ {
			ctx, cancel := context.WithCancel(t.Context())
			var asked atomic.Int32
			tree, err := n.CancelTree(ctx, root, engine.TreeCancel{
				May: func(*task.Task) error {
					if asked.Add(1) == 2 {
						cancel()
					}
					return nil
				},
				Cancelled: func(*task.Task) { heard++ },
			})
			cancel()
			if total += tree.Cancelled; err == nil {
				break
			}
			if !errors.Is(err, context.Canceled) || tries > 40 {
				t.Fatal(err)
			}
		}
		if states := n.treeStates(); total != 40 || heard != 40 || states[task.Cancelled] != 40 {
			t.Errorf("%d were counted and %d reported, and the states are %v", total, heard, states)
		}
	})
}

func TestAChildThatIsNotThereIsMissing(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		n := orchard(t)
		root := n.submit(engine.Request{Type: "tree", Payload: []byte("1")})
		synctest.Wait()
		gone := n.get(childID(root, "a", 1))
		if err := n.store.Update(t.Context(), func(tx storage.Tx) error { _, err := tx.Delete(t.Context(), gone.Ref()); return err }); err != nil {
			t.Fatal(err)
		}
		tree, err := n.CancelTree(t.Context(), root, engine.TreeCancel{})
		if err != nil || tree.Cancelled != 3 || tree.Missing != 1 {
			t.Errorf("it returns %+v, %v", tree, err)
		}
	})
}

// A task is done before its children have ended, one of which has a child that is done.
func TestATaskThatIsDoneKeepsItsTree(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		n := start(t, one("tree", nil), handle("tree", func(ctx context.Context, t *task.Task) ([]byte, error) {
			level, _ := strconv.Atoi(string(t.Payload))
			child := task.Request{Type: "tree", Payload: strconv.AppendInt(nil, int64(level-1), 10)}
			switch {
			case level == 0 && t.Parent.Index == 1:
				<-ctx.Done()
				return nil, ctx.Err()
			case level > 0 && t.Woken().By == task.NotWoken:
				return nil, task.WaitForChildren([]task.ChildrenWait{{Name: "a", Count: 1}}, time.Time{}, task.WithChildren("a", child, child))
			}
			return nil, nil
		}))
		root := n.submit(engine.Request{Type: "tree", Payload: []byte("2")})
		n.end(root)
		synctest.Wait()
		if got := n.get(root); got.State != task.Done || got.Children.Set("a").Added != 2 || got.Children.Set("a").Done != 2 {
			t.Fatalf("the root is %v, with %+v", got.State, got.Children)
		}
		states := map[task.State]int{}
		for b, err := range n.Tree(t.Context(), root) {
			if err != nil {
				t.Fatal(err)
			}
			states[b.Task.State]++
		}
		if states[task.Done] != 5 || states[task.Processing] != 2 {
			t.Errorf("the tree has %v", states)
		}
		running := childID(childID(root, "a", 0), "a", 1)
		tree, err := n.CancelTree(t.Context(), root, engine.TreeCancel{Reason: "no need"})
		if err != nil || tree.Cancelled != 2 || tree.Missing != 0 || tree.Root.State != task.Done || n.get(running).LastError != "no need" {
			t.Errorf("it returns %+v, %v", tree, err)
		}
		time.Sleep(time.Second) // on the clock of the bubble: the ends are reported
		if set := n.get(childID(root, "a", 0)).Children.Set("a"); set.Done != 1 || set.Cancelled != 1 || set.Await != 0 {
			t.Errorf("a parent that was done before has learned %+v", set)
		}
		gone := n.get(running)
		if err := n.store.Update(t.Context(), func(tx storage.Tx) error { _, err := tx.Delete(t.Context(), gone.Ref()); return err }); err != nil {
			t.Fatal(err)
		}
		if tree, err := n.CancelTree(t.Context(), root, engine.TreeCancel{}); err != nil || tree.Cancelled != 0 || tree.Missing != 0 {
			t.Errorf("after the retention of a child it returns %+v, %v", tree, err)
		}
	})
}

func TestATaskThatIsDoneWithoutChildrenHasNoTreeToCancel(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		n := start(t, one("x", nil), handle("x", func(context.Context, *task.Task) ([]byte, error) { return nil, nil }))
		id := n.submit(engine.Request{Type: "x"})
		n.end(id)
		if tree, err := n.CancelTree(t.Context(), id, engine.TreeCancel{}); !errors.Is(err, engine.ErrNotAllowed) || tree.Root != nil {
			t.Errorf("it returns %+v, %v", tree, err)
		}
		if _, err := n.CancelTree(t.Context(), task.ID{1}, engine.TreeCancel{}); !errors.Is(err, task.ErrNotFound) {
			t.Errorf("for no task it returns %v", err)
		}
	})
}
