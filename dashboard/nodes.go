package dashboard

import (
	"context"
	"time"

	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
)

func nodesPage() page {
	return page{path: "nodes", name: "Nodes", key: "n", whole: true, template: "nodes", every: 3 * time.Second, load: loadNodes}
}

// nodeList has the values of the page.
type nodeList struct {
	Nodes   []*taskenginev1.Node
	Workers []*taskenginev1.Worker
}

func loadNodes(v *view) (any, error) {
	v.command = commandLine("node", "list")
	nodes, err := v.nodes()
	if err != nil {
		return nil, err
	}
	workers, err := shared(v, "workers", queryPatience, func(ctx context.Context) (*taskenginev1.ListWorkersResponse, error) {
		return v.api().ListWorkers(ctx, &taskenginev1.ListWorkersRequest{})
	})
	if err != nil {
		return nil, err
	}
	v.silent = nodes.GetSilent()
	return &nodeList{nodes.GetNodes(), workers.Value.GetWorkers()}, nil
}

// nodes returns the nodes of the cluster.
func (v *view) nodes() (*taskenginev1.ListNodesResponse, error) {
	got, err := shared(v, "nodes", nodesPatience, func(ctx context.Context) (*taskenginev1.ListNodesResponse, error) {
		return v.api().ListNodes(ctx, &taskenginev1.ListNodesRequest{})
	})
	return got.Value, err
}
