package engine_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/task"
)

// gauge counts the handlers that run at once, on all nodes together, by the payload of their tasks.
type gauge struct {
	mu      sync.Mutex
	running map[string]int // guarded by mu
	most    map[string]int // guarded by mu
	starts  []time.Time    // guarded by mu
}

func newGauge() *gauge { return &gauge{running: map[string]int{}, most: map[string]int{}} }

// work returns a handler that takes d, whatever its context says.
func (g *gauge) work(d time.Duration) func(context.Context, *task.Task) ([]byte, error) {
	return func(_ context.Context, t *task.Task) ([]byte, error) {
		g.add(t, 1)
		defer g.add(t, -1)
		time.Sleep(d)
		return nil, nil
	}
}

func (g *gauge) add(t *task.Task, n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, name := range []string{"", string(t.Payload)} {
		g.running[name] += n
		g.most[name] = max(g.most[name], g.running[name])
	}
	if n > 0 {
		g.starts = append(g.starts, time.Now())
	}
}

// peak returns how many tasks ran at once, with a payload or in all.
func (g *gauge) peak(payload string) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.most[payload]
}

// clusterLimits returns policies of one type under limits of the cluster.
func clusterLimits(limits ...policy.Limit) policy.Set {
	set := one("work", nil)
	p := set.Types["work"]
	set.Limits = map[string]policy.Limit{}
	for _, l := range limits {
		l.Cluster = true
		set.Limits[l.Name] = l
	}
	p.Limits = []string{limits[0].Name}
	set.Types["work"] = p
	return set
}

// backlog submits tasks at several nodes in turn, and returns their ids.
func backlog(nodes []*member, count int, payload func(i int) string) (ids []task.ID) {
	for i := range count {
		ids = append(ids, nodes[i%len(nodes)].submit(engine.Request{Type: "work", Payload: []byte(payload(i))}))
	}
	return ids
}

func (g *group) joinAll(count int, set policy.Set, work func(context.Context, *task.Task) ([]byte, error)) (nodes []*member) {
	for i := range count {
		nodes = append(nodes, g.join(fmt.Sprintf("node %d", i+1), set, work, "work"))
	}
	return nodes
}

func TestALimitOfTheClusterHoldsOverAllNodesAndIsUsedUp(t *testing.T) {
	for _, c := range []struct{ limit, nodes int }{{3, 4}, {8, 3}, {1, 3}, {30, 2}} {
		t.Run(fmt.Sprintf("%d on %d nodes", c.limit, c.nodes), func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				g, load := newGroup(t), newGauge()
				nodes := g.joinAll(c.nodes, clusterLimits(policy.Limit{Name: "few", Max: c.limit}), load.work(50*time.Millisecond))
				begin := time.Now()
				ids := backlog(nodes, 300, func(int) string { return `"x"` })
				for _, id := range ids {
					nodes[0].end(id)
				}
				if most := load.peak(""); most != c.limit {
					t.Errorf("%d ran at once, of %d", most, c.limit)
				}
				ideal := time.Duration(len(ids)/c.limit) * 50 * time.Millisecond
				if took := time.Since(begin); took > 2*ideal+2*time.Second {
					t.Errorf("%d tasks took %v; the limit allows %v", len(ids), took, ideal)
				}
			})
		})
	}
}

func TestTasksOfAValueWithFewSlotsAreStartedByOneNode(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		g, load := newGroup(t), newGauge()
		nodes := g.joinAll(3, clusterLimits(policy.Limit{Name: "partner", Max: 2, Per: "payload"}), load.work(time.Millisecond))
		time.Sleep(time.Second) // until each node knows the others
		by := map[string][]string{}
		for i, id := range backlog(nodes, 120, func(i int) string { return fmt.Sprintf("%q", fmt.Sprint(i%10)) }) {
			nodes[0].end(id)
			by[fmt.Sprint(i%10)] = append(by[fmt.Sprint(i%10)], g.ran(id)...)
		}
		used := map[string]bool{}
		for value, names := range by {
			slices.Sort(names)
			if names = slices.Compact(names); len(names) != 1 {
				t.Errorf("tasks of value %s ran on %v", value, names)
			}
			used[names[0]] = true
		}
		if len(used) < 2 {
			t.Errorf("all values ran on %v", slices.Collect(maps.Keys(used)))
		}
	})
}

func TestARateOfTheClusterHoldsOverAllNodes(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		g, load := newGroup(t), newGauge()
		nodes := g.joinAll(3, clusterLimits(policy.Limit{Name: "slow", Rate: policy.Rate{Count: 20, Per: time.Second, Burst: 5}}), load.work(time.Millisecond))
		begin := time.Now()
		for _, id := range backlog(nodes, 205, func(int) string { return `"x"` }) {
			nodes[0].end(id)
		}
		for i, first := range load.starts {
			for n, last := range load.starts[i:] {
				allowed := 5 + int(last.Sub(first)/(50*time.Millisecond)) + 1
				if n+1 > allowed+3*2 { // each node has at most two tokens that it has not used
					t.Fatalf("%d starts within %v", n+1, last.Sub(first))
				}
			}
		}
		if took := time.Since(begin); took < 9500*time.Millisecond || took > 13*time.Second {
			t.Errorf("205 tasks at 20 a second took %v", took)
		}
	})
}

func TestALimitOfTheClusterNeedsACoordinator(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		g := newGroup(t)
		set := clusterLimits(policy.Limit{Name: "few", Max: 2})
		_, err := engine.Open(t.Context(), engine.Config{Store: g.store, Policies: set, Coordinator: coord.Coordinator{Membership: g.first}})
		if err == nil || !strings.Contains(err.Error(), `limit "few"`) {
			t.Fatalf("opened with %v", err)
		}
	})
}
