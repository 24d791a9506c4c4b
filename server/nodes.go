package server

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/server/peer"
	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
	"github.com/taskengine/taskengine/server/proto/taskengine/v1/taskenginev1connect"
	"github.com/taskengine/taskengine/task"
)

// ListNodes returns the nodes that are alive.
func (a *API) ListNodes(ctx context.Context, req *taskenginev1.ListNodesRequest) (*taskenginev1.ListNodesResponse, error) {
	all, silent, err := a.named(ctx, req.GetNode())
	if err != nil {
		return nil, err
	}
	res := &taskenginev1.ListNodesResponse{Silent: silent}
	byID := make(map[task.ID]*taskenginev1.Node)
	var others []coord.Member
	for i := range all {
		n := a.nodeOf(&all[i])
		res.Nodes = append(res.Nodes, n)
		byID[all[i].Incarnation] = n
		if !n.GetHere() {
			others = append(others, all[i])
		}
	}
	answers, without := sorted(peer.Ask(a.forCaller(ctx), a.peers, others, func(ctx context.Context, c taskenginev1connect.TaskServiceClient) (*taskenginev1.ListNodesResponse, error) {
		return c.ListNodes(ctx, &taskenginev1.ListNodesRequest{})
	}))
	for _, one := range answers {
		if of := one.Res.GetNodes(); len(of) == 1 {
			byID[one.Node.Incarnation].Status = of[0].GetStatus()
		}
	}
	res.Silent = append(res.Silent, without...)
	slices.SortStableFunc(res.Nodes, func(a, b *taskenginev1.Node) int {
		return cmp.Or(cmp.Compare(a.GetName(), b.GetName()), cmp.Compare(a.GetId(), b.GetId()))
	})
	return res, nil
}

// DrainNode has a node stop after its running tasks.
func (a *API) DrainNode(ctx context.Context, req *taskenginev1.DrainNodeRequest) (*taskenginev1.DrainNodeResponse, error) {
	if req.GetNode() == "" {
		return nil, a.answer(invalid("node is empty: give a name or an id"))
	}
	all, _, err := a.named(ctx, req.GetNode())
	switch {
	case err != nil:
		return nil, err
	case len(all) > 1:
		return nil, connect.NewError(connect.CodeFailedPrecondition, fmt.Errorf("%d nodes have the name %.80q: give the id of one, which taskengine node list -o json shows", len(all), req.GetNode()))
	}
	m := &all[0]
	n := a.nodeOf(m)
	if !n.GetHere() {
		err := a.peers.AskOne(a.forCaller(ctx), m, func(ctx context.Context, c taskenginev1connect.TaskServiceClient) error {
			_, err := c.DrainNode(ctx, &taskenginev1.DrainNodeRequest{Node: m.Incarnation.String(), By: req.GetBy()}) // which sees the same caller
			return err
		})
		if err != nil {
			return nil, a.answer(passedOn(m, err))
		}
		return &taskenginev1.DrainNodeResponse{Node: n}, nil
	}
	if a.stop == nil {
		return nil, connect.NewError(connect.CodeUnimplemented, fmt.Errorf("the program of this node cannot stop it by a request"))
	}
	a.log.Info("the node was asked to drain", "by", byOf(ctx, req.GetBy()))
	a.stop("it was drained by a request")
	return &taskenginev1.DrainNodeResponse{Node: n}, nil
}

// passedOn returns the error of a request that one other node has to answer.
func passedOn(m *coord.Member, err error) error {
	if connect.IsWireError(err) {
		return err
	}
	return connect.NewError(connect.CodeUnavailable, fmt.Errorf("node %s does not answer: %w", nodeName(m), err))
}

// named returns the nodes with a name or an id; "" stands for all. It returns NotFound if there are none.
func (a *API) named(ctx context.Context, name string) (found []coord.Member, silent []*taskenginev1.SilentNode, err error) {
	others, unknown := a.others(ctx)
	if unknown != nil {
		silent = append(silent, unknownNodes(unknown))
	}
	all := append([]coord.Member{a.self()}, others...)
	if name == "" {
		return all, silent, nil
	}
	for _, m := range all {
		if m.Name == name || m.Incarnation.String() == name {
			found = append(found, m)
		}
	}
	switch {
	case len(found) > 0:
		return found, nil, nil
	case unknown != nil:
		return nil, nil, connect.NewError(connect.CodeUnavailable, unknown)
	}
	return nil, nil, connect.NewError(connect.CodeNotFound, fmt.Errorf("no node that is alive has the name or the id %.80q", name))
}

// self returns this node as a member: as it is announced, or as it is if it is alone.
func (a *API) self() coord.Member {
	if a.peers != nil {
		if all, err := a.peers.All(); err == nil {
			if i := slices.IndexFunc(all, func(m coord.Member) bool { return a.peers.IsSelf(&m) }); i >= 0 {
				return all[i]
			}
		}
	}
	m := coord.Member{Incarnation: a.engine.Incarnation(), Name: a.node, Version: a.build.Version}
	for _, t := range a.engine.Types() {
		if a.engine.Handles(t.Name) {
			m.Handlers = append(m.Handlers, t.Name)
		}
	}
	return m
}

// nodeOf returns the message of a member, with the status of this node.
func (a *API) nodeOf(m *coord.Member) *taskenginev1.Node {
	n := &taskenginev1.Node{
		Name: text(nodeName(m)), Id: m.Incarnation.String(), Address: text(m.Address), Version: text(m.Version), Draining: m.Draining,
	}
	for k, v := range m.Labels {
		if n.Labels == nil {
			n.Labels = make(map[string]string)
		}
		n.Labels[text(k)] = text(v)
	}
	for _, h := range m.Handlers {
		n.Types = append(n.Types, text(h))
	}
	own := a.engine.Incarnation()
	if n.Here = m.Uses(own); n.Here {
		n.Status = a.status()
	}
	return n
}

// status returns what only this node knows about itself.
func (a *API) status() *taskenginev1.NodeStatus {
	s := a.engine.Stats()
	n := &taskenginev1.NodeStatus{
		StartedAt: stamp(a.started), Uptime: durationpb.New(time.Since(a.started)), Shards: uint32(a.engine.Shards()), ShardsTotal: task.ShardCount,
		Running: uint32(s.Running), Slots: uint32(a.engine.Slots()), Waiting: uint64(s.Waiting),
	}
	roles := a.engine.Roles()
	for _, role := range slices.Sorted(maps.Keys(roles)) {
		if roles[role] {
			n.Roles = append(n.Roles, role)
		}
	}
	if o, ok := a.engine.ClockOffset(); ok {
		n.ClockAhead, n.ClockWithin = durationpb.New(o.Ahead), durationpb.New(o.Within)
	}
	if a.workers != nil {
		n.Workers = uint32(len(a.workers.Workers()))
	}
	return n
}
