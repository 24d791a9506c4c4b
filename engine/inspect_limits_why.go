package engine

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/taskengine/taskengine/engine/internal/core"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/task"
)

// LimitWhy says what a limit, or one of its values, counts at this moment, and what waits for it.
type LimitWhy struct {
	LimitStatus

	Tasks     []LimitTask  // tasks of this node that have slots of it, at most 100: those that must end first first
	Queued    []LimitQueue // what counts for it and waits in the memory of this node, sorted by type
	NextStart time.Time    // when its rate allows the next start; zero if it allows one now. Of several values the latest

	// Nodes have permits of a limit of the cluster, or wait for some: first those that have permits, in
	// the order in which they last got some, then the others in the order in which they wait. Of several
	// values it has the sums, sorted by node.
	Nodes []LimitNode
	// NodesProblem says why Nodes is not known; "" if it is.
	NodesProblem string
}

// LimitNode is a node that has permits of a limit, or waits for some.
type LimitNode struct {
	Node  string    // its name; "" if this node does not know it: it is gone, or has just come
	Held  int       // permits
	Want  int       // permits that it wants to have in all
	Since time.Time // when it last got permits, or if it has none, since when it waits
}

// LimitTask is a task that has slots of a limit.
type LimitTask struct {
	ID        task.ID
	Type      string
	Weight    int       // how many slots it takes
	StartedAt time.Time // of its attempt; zero if that has not begun
}

// LimitQueue is what waits of one type.
type LimitQueue struct {
	Type  string
	Tasks int // that are ready and in memory; the store may have more
}

const (
	maxLimitTasks = 100 // tasks in a LimitWhy
	maxLimitNames = 100 // values of a limit of which WhyLimit asks the coordinator
)

// WhyLimit returns what a limit, or one of its values, counts at this moment, and what waits. Errors
// are those of [Engine.Limit].
func (e *Engine) WhyLimit(ctx context.Context, name, value string) (LimitWhy, error) {
	status, err := e.Limit(ctx, name, value)
	if err != nil {
		return LimitWhy{}, err
	}
	w := LimitWhy{LimitStatus: status}
	var names []string
	e.tell(func(s *state, now time.Time) {
		use := s.Core().LimitUse(now, maxLimitTasks, matchLimit(name, value))
		w.Used, w.Held, w.NextStart = use.Used, use.Held, use.Open
		for _, t := range use.Holders {
			one := LimitTask{ID: t.ID, Type: t.Type, Weight: t.Weight}
			if a := s.attempts[t.ID]; a != nil {
				one.StartedAt = a.Task.StartedAt
			}
			w.Tasks = append(w.Tasks, one)
		}
		w.Queued, names = queued(use), use.Names
	})
	w.Nodes, w.NodesProblem = e.limitNodes(ctx, e.clusterNames(&status, names))
	return w, nil
}

// clusterNames returns the names by which the coordinator knows a limit. inUse are those of its values
// that are in the memory of this node: other nodes may use the limit while this one does not.
func (e *Engine) clusterNames(s *LimitStatus, inUse []string) []string {
	if len(inUse) > 0 || !s.Configured || !s.Base.Cluster || s.Value == "" && s.Base.Per != "" || strings.HasSuffix(s.Value, "*") {
		return inUse
	}
	for _, up := range e.catalog.policies.Chain(s.Base.Of) {
		if up.Per != "" { // its values are part of the name
			return nil
		}
	}
	if s.Value != "" {
		return []string{policy.ClusterName(s.Name, s.Value)}
	}
	return []string{policy.ClusterName(s.Name)}
}

// limitNodes returns which nodes have permits or wait for some, or why that is not known.
func (e *Engine) limitNodes(ctx context.Context, names []string) (nodes []LimitNode, problem string) {
	if e.config.Coordinator.Semaphore == nil || len(names) == 0 {
		return nil, ""
	}
	if len(names) > maxLimitNames {
		return nil, fmt.Sprintf("%d of its values are in use; ask for one of them", len(names))
	}
	ctx, cancel := context.WithTimeout(ctx, heldPatience)
	defer cancel()
	at := make(map[string]int) // by name, the index in nodes
	for _, name := range names {
		holders, err := e.config.Coordinator.Semaphore.Holders(ctx, name)
		if err != nil {
			return nil, fmt.Sprintf("the coordinator does not answer: %v", err)
		}
		for _, h := range holders {
			n := LimitNode{Node: e.cluster.MemberOfHolder(h.Holder), Held: h.Held, Want: h.Want, Since: h.Since}
			i, known := at[n.Node]
			if !known || n.Node == "" {
				at[n.Node] = len(nodes)
				nodes = append(nodes, n)
				continue
			}
			sum := &nodes[i]
			if sum.Held, sum.Want = sum.Held+n.Held, sum.Want+n.Want; n.Since.Before(sum.Since) {
				sum.Since = n.Since
			}
		}
	}
	if len(names) > 1 {
		slices.SortStableFunc(nodes, func(a, b LimitNode) int { return cmp.Compare(a.Node, b.Node) })
	}
	return nodes, ""
}

func queued(use core.LimitUse) (all []LimitQueue) {
	for typ, n := range use.Queued {
		all = append(all, LimitQueue{typ, n})
	}
	slices.SortFunc(all, func(a, b LimitQueue) int { return cmp.Compare(a.Type, b.Type) })
	return all
}

// matchLimit returns what says which limits in use are meant by a name and a value.
func matchLimit(name, value string) func(name, value string) bool {
	prefix, isPattern := strings.CutSuffix(value, "*")
	return func(n, v string) bool {
		switch {
		case n != name:
			return false
		case value == "":
			return true
		case isPattern:
			return strings.HasPrefix(v, prefix)
		}
		return v == value
	}
}
