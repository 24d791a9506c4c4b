package client

import (
	"context"
	"time"

	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
	"github.com/taskengine/taskengine/server/proto/taskengine/v1/taskenginev1connect"
)

// SilentNode is a node that is alive and did not answer the node that was asked, so an answer lacks what that node alone knows.
type SilentNode struct {
	Node    string // its name
	ID      string
	Address string // of its API; empty if it announces none
	Problem string // why there is no answer
}

// Node is a node of the cluster that is alive.
type Node struct {
	Name     string // several nodes may have the same one
	ID       string // new with every start
	Address  string // of its API, for other nodes; empty if it announces none
	Version  string // of its program
	Labels   map[string]string
	Types    []string    // that it runs
	Draining bool        // it starts no tasks, and ends after its running ones
	Here     bool        // it is the node that was asked
	Status   *NodeStatus // nil if it did not answer
}

// NodeStatus is the status that a node reports of itself.
type NodeStatus struct {
	StartedAt   time.Time // by its clock
	Uptime      time.Duration
	Roles       []string // that it has in the cluster
	Shards      uint32   // of which it starts the tasks, of ShardsTotal
	ShardsTotal uint32
	Running     uint32         // tasks with a slot
	Slots       uint32         // that its tasks may take at once; 0: as many as there are tasks
	Waiting     uint64         // ready tasks in its memory; the store may have more
	ClockAhead  *time.Duration // how far its clock is ahead of that of the cluster; nil: the cluster has no clock of its own
	ClockWithin time.Duration  // the bound of the error of ClockAhead
	Workers     uint32         // that are connected to it
}

// WorkerState says whether a worker takes tasks. A node of a newer version may have others.
type WorkerState string

// The states of workers.
const (
	WorkerServing  WorkerState = "serving"
	WorkerDraining WorkerState = "draining" // it ends after its running tasks
	WorkerLost     WorkerState = "lost"     // its connection broke, and it may connect again with its running tasks
)

// Worker is a program that has connected to a node to run the tasks of a handler.
type Worker struct {
	ID          string // names it on its node, for as long as the node runs
	Name        string // that the program has given itself; several may have the same one
	Handler     string
	State       WorkerState
	Slots       uint32         // tasks that it takes of the node at once
	Running     uint32         // tasks of the node that it runs
	ConnectedAt time.Time      // the first time
	SDK         string         // the library that it uses, and its version
	Version     string         // that the program has given itself
	ClockAhead  *time.Duration // how far its clock is ahead of that of the node, about; nil: it does not say
	Node        string         // that it is connected to
}

// Nodes returns the nodes of the cluster that are alive, by name, or those with a name or an id, and the nodes that did not answer. These
// are among the nodes, without a status.
func (c *Client) Nodes(ctx context.Context, node string) (nodes []*Node, silent []SilentNode, err error) {
	res, err := call[taskenginev1.ListNodesResponse](ctx, c, taskenginev1connect.TaskServiceListNodesProcedure, &taskenginev1.ListNodesRequest{Node: node}, true)
	if err != nil {
		return nil, nil, err
	}
	return all(res.GetNodes(), nodeOf), all(res.GetSilent(), silentOf), nil
}

// DrainNode has a node, by its name or id, stop after its running tasks, and returns the node as it was announced.
func (c *Client) DrainNode(ctx context.Context, node, by string) (*Node, error) {
	res, err := call[taskenginev1.DrainNodeResponse](ctx, c, taskenginev1connect.TaskServiceDrainNodeProcedure, &taskenginev1.DrainNodeRequest{Node: node, By: by}, false)
	if err != nil {
		return nil, err
	}
	return nodeOf(res.GetNode()), nil
}

// Workers returns the workers of all nodes, by node, and the nodes that did not answer: their workers are missing.
func (c *Client) Workers(ctx context.Context) (workers []*Worker, silent []SilentNode, err error) {
	res, err := call[taskenginev1.ListWorkersResponse](ctx, c, taskenginev1connect.TaskServiceListWorkersProcedure, &taskenginev1.ListWorkersRequest{}, true)
	if err != nil {
		return nil, nil, err
	}
	return all(res.GetWorkers(), workerOf), all(res.GetSilent(), silentOf), nil
}

// DrainWorker has a worker, by its id, or all with a name, end after their running tasks. It returns those that end now, and the nodes that have
// drained none, because they did not answer. It may be repeated.
func (c *Client) DrainWorker(ctx context.Context, worker string) (workers []*Worker, silent []SilentNode, err error) {
	res, err := call[taskenginev1.DrainWorkerResponse](ctx, c, taskenginev1connect.TaskServiceDrainWorkerProcedure, &taskenginev1.DrainWorkerRequest{Worker: worker}, true)
	if err != nil {
		return nil, nil, err
	}
	return all(res.GetWorkers(), workerOf), all(res.GetSilent(), silentOf), nil
}

func silentOf(m *taskenginev1.SilentNode) SilentNode {
	return SilentNode{Node: m.GetNode(), ID: m.GetId(), Address: m.GetAddress(), Problem: m.GetProblem()}
}

func nodeOf(m *taskenginev1.Node) *Node {
	n := &Node{
		Name: m.GetName(), ID: m.GetId(), Address: m.GetAddress(), Version: m.GetVersion(), Labels: m.GetLabels(), Types: m.GetTypes(),
		Draining: m.GetDraining(), Here: m.GetHere(),
	}
	if s := m.GetStatus(); s != nil {
		n.Status = &NodeStatus{
			StartedAt: timeOf(s.GetStartedAt()), Uptime: s.GetUptime().AsDuration(), Roles: s.GetRoles(), Shards: s.GetShards(), ShardsTotal: s.GetShardsTotal(),
			Running: s.GetRunning(), Slots: s.GetSlots(), Waiting: s.GetWaiting(), ClockWithin: s.GetClockWithin().AsDuration(), Workers: s.GetWorkers(),
		}
		if s.GetClockAhead() != nil {
			n.Status.ClockAhead = new(s.GetClockAhead().AsDuration())
		}
	}
	return n
}

func workerOf(m *taskenginev1.Worker) *Worker {
	w := &Worker{
		ID: m.GetId(), Name: m.GetName(), Handler: m.GetHandler(), State: WorkerState(m.GetState()), Slots: m.GetSlots(), Running: m.GetRunning(),
		ConnectedAt: timeOf(m.GetConnectedAt()), SDK: m.GetSdk(), Version: m.GetVersion(), Node: m.GetNode(),
	}
	if m.GetClockAhead() != nil {
		w.ClockAhead = new(m.GetClockAhead().AsDuration())
	}
	return w
}
