package server

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/durationpb"

	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
	"github.com/taskengine/taskengine/server/proto/taskengine/v1/taskenginev1connect"
)

// Workers are the programs that have connected to the node to run tasks.
type Workers interface {
	// Workers returns them, by their handlers and then in the order of their first connection.
	Workers() []Worker

	// DrainWorker asks the workers with this ID or name to end after their running tasks, and returns
	// them.
	DrainWorker(worker string) []Worker
}

// Worker describes a worker at one moment.
type Worker struct {
	ID          string // names it on this node for as long as the node runs
	Name        string // that the worker has given itself
	Handler     string
	State       string
	Slots       int // tasks that it takes at once
	Running     int // tasks that it runs now
	ConnectedAt time.Time
	SDK         string // the library that it uses and its version
	Version     string // that the worker has given itself; "" if it has none

	ClockAhead *time.Duration // how far its clock is ahead of that of the node, about; negative if it is behind, nil if it is not known
}

// ListWorkers returns the workers of all nodes.
func (a *API) ListWorkers(ctx context.Context, req *taskenginev1.ListWorkersRequest) (*taskenginev1.ListWorkersResponse, error) {
	res := &taskenginev1.ListWorkersResponse{}
	if a.workers != nil {
		res.Workers = a.workersOf(a.workers.Workers())
	}
	answers, silent := ask(ctx, a, func(ctx context.Context, c taskenginev1connect.TaskServiceClient) (*taskenginev1.ListWorkersResponse, error) {
		return c.ListWorkers(ctx, req)
	})
	for _, one := range answers {
		res.Workers = append(res.Workers, one.Res.GetWorkers()...)
	}
	sortWorkers(res.Workers)
	res.Silent = silent
	return res, nil
}

// sortWorkers sorts workers by their nodes, and keeps the order of each node.
func sortWorkers(all []*taskenginev1.Worker) {
	slices.SortStableFunc(all, func(a, b *taskenginev1.Worker) int { return cmp.Compare(a.GetNode(), b.GetNode()) })
}

// DrainWorker has workers of all nodes end after their running tasks.
func (a *API) DrainWorker(ctx context.Context, req *taskenginev1.DrainWorkerRequest) (*taskenginev1.DrainWorkerResponse, error) {
	if req.GetWorker() == "" {
		return nil, a.answer(invalid("worker is empty: give an id or a name"))
	}
	res := &taskenginev1.DrainWorkerResponse{}
	if a.workers != nil {
		res.Workers = a.workersOf(a.workers.DrainWorker(req.GetWorker()))
	}
	answers, silent := ask(ctx, a, func(ctx context.Context, c taskenginev1connect.TaskServiceClient) (*taskenginev1.DrainWorkerResponse, error) {
		return c.DrainWorker(ctx, req)
	})
	for _, one := range answers {
		res.Workers = append(res.Workers, one.Res.GetWorkers()...)
	}
	sortWorkers(res.Workers)
	res.Silent = silent
	switch {
	case len(res.Workers) > 0:
		a.noted(ctx, "workers were drained", "worker", req.GetWorker(), "workers", len(res.Workers))
		return res, nil
	case len(silent) > 0:
		return nil, connect.NewError(connect.CodeUnavailable, fmt.Errorf("no worker of the nodes that answer has the id or the name %.80q, and %s", req.GetWorker(), silentWords(silent)))
	}
	return nil, connect.NewError(connect.CodeNotFound, fmt.Errorf("no worker has the id or the name %.80q", req.GetWorker()))
}

// silentWords names the nodes that did not answer.
func silentWords(silent []*taskenginev1.SilentNode) string {
	words := make([]string, 0, len(silent))
	for _, s := range silent {
		words = append(words, fmt.Sprintf("node %s did not answer (%s)", cmp.Or(s.GetNode(), "others"), s.GetProblem()))
	}
	return strings.Join(words, ", and ")
}

func (a *API) workersOf(ws []Worker) []*taskenginev1.Worker {
	out := make([]*taskenginev1.Worker, len(ws))
	for i, w := range ws {
		out[i] = &taskenginev1.Worker{
			Id: text(w.ID), Name: text(w.Name), Handler: text(w.Handler), State: w.State, Slots: uint32(w.Slots), Running: uint32(w.Running),
			ConnectedAt: stamp(w.ConnectedAt), Sdk: text(w.SDK), Version: text(w.Version), Node: text(a.node),
		}
		if w.ClockAhead != nil {
			out[i].ClockAhead = durationpb.New(*w.ClockAhead)
		}
	}
	return out
}
