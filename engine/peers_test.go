package engine_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/coord/local"
	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/storage/memory"
	"github.com/taskengine/taskengine/task"
)

// apart starts nodes that have a store each, and share limits.
func apart(t *testing.T, count int, set policy.Set, work func(context.Context, *task.Task) ([]byte, error)) (nodes []*node, coords []*local.Node) {
	first := local.New()
	for i := range count {
		c := first.Peer()
		n := &node{t: t, store: memory.New(), config: engine.Config{
			Policies: set, Handlers: map[string]task.Handler{"work": task.HandlerFunc(work)}, Name: fmt.Sprint("node ", i+1),
			Coordinator: c.Coordinator().Apart(),
		}}
		n.config.Store = n.store
		n.open()
		t.Cleanup(n.close)
		nodes, coords = append(nodes, n), append(coords, c)
	}
	return nodes, coords
}

func (n *node) states(ids []task.ID) map[task.State]int {
	found := map[task.State]int{}
	for _, id := range ids {
		found[n.get(id).State]++
	}
	return found
}

func TestNodesWithAStoreEachShareLimitsAndSettings(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		nodes, _ := apart(t, 2, clusterLimits(policy.Limit{Name: "few", Max: 3}), takes(time.Minute))
		ids := make([][]task.ID, 2)
		for i, n := range nodes {
			for range 5 {
				ids[i] = append(ids[i], n.submit(engine.Request{Type: "work"}))
			}
		}
		running := func() int {
			synctest.Wait()
			return nodes[0].states(ids[0])[task.Processing] + nodes[1].states(ids[1])[task.Processing]
		}
		time.Sleep(10 * time.Second)
		if n := running(); n != 3 {
			t.Errorf("%d tasks run, want the 3 of the limit", n)
		}
		for _, n := range nodes {
			why, err := n.WhyLimit(t.Context(), "few", "")
			if err != nil || len(why.Nodes) != 2 || why.Nodes[0].Node+why.Nodes[1].Node != "node 1node 2" && why.Nodes[0].Node+why.Nodes[1].Node != "node 2node 1" {
				t.Errorf("the limit is held by %+v, %v, want both nodes", why.Nodes, err)
			}
			if n.Members() != nil {
				t.Errorf("a node has the members %v", n.Members())
			}
		}
		more := 6
		if _, err := nodes[0].SetLimit(t.Context(), engine.LimitSetting{Limit: "few", Max: &more}, nil); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		if n := running(); n != 6 {
			t.Errorf("%d tasks run after the limit was raised to 6 on one node", n)
		}
		for i, n := range nodes {
			for _, id := range ids[i] {
				if got := n.end(id); got.State != task.Done {
					t.Errorf("a task of node %d ends in the state %v", i+1, got.State)
				}
			}
		}
	})
}

func TestANodeWithAStoreOfItsOwnLosesItsPermitsAndNothingElse(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		nodes, coords := apart(t, 2, clusterLimits(policy.Limit{Name: "few", Max: 1}), takes(time.Minute))
		n := nodes[0]
		limited := n.submit(engine.Request{Type: "work"})
		time.Sleep(10 * time.Second)
		coords[0].Sever()
		synctest.Wait()
		if got := n.get(limited); got.State == task.Processing {
			t.Errorf("the task with a lost permit is in the state %v", got.State)
		}
		_, reasons, err := n.Why(t.Context(), limited)
		if err != nil || len(reasons) == 0 || !strings.Contains(reasons[0].Text, "cannot prove to the coordinator") {
			t.Errorf("why says %+v, %v", reasons, err)
		}
		if holds, ok := n.HoldsPermits(); holds || !ok {
			t.Errorf("it holds permits: %v, %v", holds, ok)
		}
		if !n.IsMember() {
			t.Error("the node does not take itself for alive, and no other node uses its store")
		}
		if got := n.end(limited); got.State != task.Done {
			t.Errorf("the task ends in the state %v", got.State)
		}
		again := n.submit(engine.Request{Type: "work"})
		time.Sleep(10 * time.Second)
		if why, err := nodes[1].WhyLimit(t.Context(), "few", ""); err != nil || len(why.Nodes) != 1 || why.Nodes[0].Node != "node 1" {
			t.Errorf("after the loss the limit is held by %+v, %v, want the first node", why.Nodes, err)
		}
		n.end(again)
	})
}

func TestPeersLearnThatANodeDrains(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		nodes, coords := apart(t, 1, clusterLimits(policy.Limit{Name: "few", Max: 1}), takes(time.Minute))
		var peers []coord.Member
		ctx, leave := context.WithCancel(t.Context())
		left := make(chan error, 1)
		go func() {
			left <- coords[0].Peer().Join(ctx, coord.Member{Incarnation: task.ID{1}, Name: "other"}, func(all []coord.Member) { peers = all })
		}()
		nodes[0].submit(engine.Request{Type: "work"})
		time.Sleep(time.Second)
		closed := make(chan error, 1)
		go func() { closed <- nodes[0].Close(context.Background()) }()
		time.Sleep(time.Second)
		synctest.Wait()
		i := slices.IndexFunc(peers, func(m coord.Member) bool { return m.Name == "node 1" })
		if i < 0 || !peers[i].Draining {
			t.Errorf("while it drains the peers are %+v", peers)
		}
		leave()
		if err := errors.Join(<-left, <-closed); err != nil {
			t.Error(err)
		}
	})
}

func TestANodeThatIsNoMemberSaysSo(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		m := newGroup(t).join("node 1", one("work", nil), takes(time.Minute), "work")
		if err := m.coord.Close(); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		_, reasons, err := m.Why(t.Context(), m.submit(engine.Request{Type: "work"}))
		if err != nil || len(reasons) == 0 || reasons[0].Code != engine.CodeNoProof {
			t.Errorf("why says %+v, %v", reasons, err)
		}
	})
}
