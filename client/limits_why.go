package client

import (
	"context"
	"time"

	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
	"github.com/taskengine/taskengine/server/proto/taskengine/v1/taskenginev1connect"
	"github.com/taskengine/taskengine/task"
)

// LimitReasons say why a limit holds tasks up: what uses it, and what waits for it.
type LimitReasons struct {
	Limit        Limit
	Tasks        []LimitTask  // that take slots of it, on all nodes, at most 100 of each
	Queued       []LimitQueue // ready tasks that wait for it in the memory of a node, by node and type; the store may have more
	NextStart    time.Time    // when its rate allows the next start, of several values the latest; zero: now, or there is no rate
	Nodes        []LimitNode  // with [ScopeCluster]: the nodes with permits, in the order in which they last got some, then the nodes that wait, in their order
	NodesProblem string       // why Nodes are not known; empty if they are
	Silent       []SilentNode // nodes that are missing in Tasks and Queued
}

// LimitTask is a task that takes slots of a limit.
type LimitTask struct {
	ID        task.ID
	Type      string
	Slots     uint32    // how many it takes: its weight
	StartedAt time.Time // zero: it is being started
	Node      string    // that runs it
}

// LimitQueue is how many tasks of a type wait for a limit in the memory of a node.
type LimitQueue struct {
	Type  string
	Tasks int64
	Node  string
}

// LimitNode is a node that has permits of a limit, or waits for some.
type LimitNode struct {
	Node  string    // its name; empty if the node that answers does not know it
	Held  int64     // permits
	Want  int64     // permits that it wants to have in all
	Since time.Time // when it last got permits, or if it has none, since when it waits
}

// WhyLimit says why a limit, as a whole if value is empty, or for one of its values, holds tasks up. The error wraps [ErrNotFound] if the
// configuration has no such limit.
func (c *Client) WhyLimit(ctx context.Context, name, value string) (*LimitReasons, error) {
	res, err := call[taskenginev1.WhyLimitResponse](ctx, c, taskenginev1connect.TaskServiceWhyLimitProcedure, &taskenginev1.WhyLimitRequest{Name: name, Value: value}, true)
	if err != nil {
		return nil, err
	}
	var d decoder
	why := d.limitReasons(res)
	if d.err != nil {
		return nil, d.err
	}
	return why, nil
}

func (d *decoder) limitReasons(m *taskenginev1.WhyLimitResponse) *LimitReasons {
	return &LimitReasons{
		Limit: *limitOf(m.GetLimit()),
		Tasks: all(m.GetTasks(), func(m *taskenginev1.LimitTask) LimitTask {
			return LimitTask{d.id(m.GetId()), m.GetType(), m.GetSlots(), timeOf(m.GetStartedAt()), m.GetNode()}
		}),
		Queued: all(m.GetQueued(), func(m *taskenginev1.LimitQueue) LimitQueue {
			return LimitQueue{m.GetType(), m.GetTasks(), m.GetNode()}
		}),
		NextStart: timeOf(m.GetNextStart()),
		Nodes: all(m.GetNodes(), func(m *taskenginev1.LimitNode) LimitNode {
			return LimitNode{m.GetNode(), m.GetHeld(), m.GetWant(), timeOf(m.GetSince())}
		}),
		NodesProblem: m.GetNodesProblem(), Silent: all(m.GetSilent(), silentOf),
	}
}
