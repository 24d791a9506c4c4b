package sharded_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/storage/postgres/placement"
	"github.com/taskengine/taskengine/task"
)

// grow adds children in both databases, each of which adds others, and waits for all of them. Its payload is how deep the tree is below.
func (l *letters) grow(_ context.Context, t *task.Task) ([]byte, error) {
	if l.failsNow() {
		return nil, errFault
	}
	level, _ := strconv.Atoi(string(t.Payload))
	switch near, far := t.Children.Set("near"), t.Children.Set("far"); {
	case level == 0:
		return []byte("leaf"), nil
	case near == nil:
		var nears, fars []engine.Request
		for i := range 3 {
			r := engine.Request{Type: l.typeAt(level - 1), Payload: strconv.AppendInt(nil, int64(level-1), 10)}
			nears = append(nears, r)
			r.OrderingKey = fmt.Sprint("key ", t.ID, i)
			fars = append(fars, r)
		}
		wait := []task.ChildrenWait{{Name: "near"}}
		return nil, task.WaitForChildren(wait, time.Time{}, task.WithChildren("near", nears...), task.WithChildren("far", fars...))
	case near.Ended() < near.Added: // a request with children waits for those of far
		return nil, task.WaitForChildren([]task.ChildrenWait{{Name: "near"}}, time.Time{})
	case far.Ended() < far.Added:
		return nil, task.WaitForChildren([]task.ChildrenWait{{Name: "far"}}, time.Time{})
	case near.Done != near.Added || far.Done != far.Added:
		return nil, task.Permanent(fmt.Errorf("woken by %v, with %+v", t.Woken().By, t.Children.Sets))
	}
	return []byte("tree"), nil
}

// typeAt returns the type of the tasks of a level.
func (l *letters) typeAt(level int) string {
	if level == 0 && l.leaves != "" {
		return l.leaves
	}
	return "tree"
}

func TestATreeInTwoDatabasesIsReadAndCancelled(t *testing.T) {
	l := startLetters(t)
	l.leaves = "still" // it has no handler
	root, err := l.Submit(t.Context(), engine.Request{Type: "tree", Payload: []byte("2")})
	if err != nil {
		t.Fatal(err)
	}
	in := func(states ...task.State) (all int64) {
		counts, err := l.Count(t.Context(), storage.Filter{Types: []string{"tree", "still"}, States: states})
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range counts {
			all += int64(n)
		}
		return all
	}
	for in(task.Waiting) != 7 || in(task.Submitted) != 36 { // until all have arrived
		time.Sleep(time.Millisecond)
	}
	var nodes, far int
	for b, err := range l.Tree(t.Context(), root[0].ID) {
		if err != nil {
			t.Fatal(err)
		}
		nodes++
		if p := b.Task.Parent; p != nil && l.store.DatabaseOf(p.ID.Shard()) != l.store.DatabaseOf(b.Task.ID.Shard()) {
			far++
		}
	}
	if nodes != 43 || far == 0 {
		t.Errorf("the tree has %d tasks, of which %d are in another database than their parent", nodes, far)
	}
	tree, err := l.CancelTree(t.Context(), root[0].ID, engine.TreeCancel{})
	if err != nil || tree.Cancelled != 43 || tree.Missing != 0 || in(task.Cancelled) != 43 {
		t.Errorf("it returns %+v, %v, and %d are cancelled", tree, err, in(task.Cancelled))
	}
}

// fail has handlers and the store fail now and then, so often.
func (l *letters) fail(seed uint64, left int) {
	var mu sync.Mutex
	rng := rand.New(rand.NewPCG(seed, 2))
	fails := func() bool {
		mu.Lock()
		defer mu.Unlock()
		if left == 0 || rng.IntN(5) > 0 {
			return false
		}
		left--
		return true
	}
	roll := func(int) error {
		if !fails() {
			return nil
		}
		if rand.IntN(2) == 0 {
			return storage.ErrUnavailable
		}
		return errFault
	}
	l.mu.Lock()
	l.fails = fails
	l.mu.Unlock()
	l.store.set(roll, roll)
}

func TestTreesInTwoDatabasesAreJoinedThoughShardsAreMoved(t *testing.T) { treesGrow(t, true) }

func treesGrow(t *testing.T, moves bool) {
	const roots, depth = 3, 2
	l := startLetters(t)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	var ids []task.ID
	for range roots {
		got, err := l.Submit(t.Context(), engine.Request{Type: "tree", Payload: []byte(strconv.Itoa(depth))})
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, got[0].ID)
	}
	l.fail(seed, 200)
	from, to := l.a, l.b
	for n := 0; moves && n < 4; n++ {
		if err := placement.Move(t.Context(), from, to, shards(0, 60), nil); err != nil {
			t.Error(err)
		}
		from, to = to, from
	}
	for range 2 {
		l.kill(10 * time.Millisecond)
		l.start() // of another incarnation
	}
	l.await("all trees are joined", func() bool { return l.live("tree") == 0 && l.live("taskengine.relay") == 0 })
	for _, id := range ids {
		if got, err := l.Get(t.Context(), id); err != nil || got.State != task.Done || string(got.Result) != "tree" {
			t.Errorf("a tree is %v, %v", got, err)
		}
	}
	all, err := l.store.Count(t.Context(), storage.Filter{Types: []string{"tree"}})
	if err != nil {
		t.Fatal(err)
	}
	if want := int64(roots * (1 + 6 + 36)); all[storage.StateType{State: task.Done, Type: "tree"}] != want {
		t.Errorf("there are %v, want %d that are done", all, want)
	}
}
