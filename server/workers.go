package server

import (
	"context"
	"fmt"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/durationpb"

	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
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

// ListWorkers returns the workers of the node.
func (a *API) ListWorkers(context.Context, *taskenginev1.ListWorkersRequest) (*taskenginev1.ListWorkersResponse, error) {
	res := &taskenginev1.ListWorkersResponse{}
	if a.workers != nil {
		res.Workers = workersOf(a.workers.Workers())
	}
	return res, nil
}

// DrainWorker has workers end after their running tasks.
func (a *API) DrainWorker(ctx context.Context, req *taskenginev1.DrainWorkerRequest) (*taskenginev1.DrainWorkerResponse, error) {
	if req.GetWorker() == "" {
		return nil, a.answer(invalid("worker is empty: give an id or a name"))
	}
	var drained []Worker
	if a.workers != nil {
		drained = a.workers.DrainWorker(req.GetWorker())
	}
	if len(drained) == 0 {
		return nil, connect.NewError(connect.CodeNotFound, fmt.Errorf("no worker of this node has the id or the name %.80q", req.GetWorker()))
	}
	a.noted(ctx, "workers were drained", "worker", req.GetWorker(), "workers", len(drained))
	return &taskenginev1.DrainWorkerResponse{Workers: workersOf(drained)}, nil
}

func workersOf(ws []Worker) []*taskenginev1.Worker {
	out := make([]*taskenginev1.Worker, len(ws))
	for i, w := range ws {
		out[i] = &taskenginev1.Worker{
			Id: text(w.ID), Name: text(w.Name), Handler: text(w.Handler), State: w.State, Slots: uint32(w.Slots), Running: uint32(w.Running),
			ConnectedAt: stamp(w.ConnectedAt), Sdk: text(w.SDK), Version: text(w.Version),
		}
		if w.ClockAhead != nil {
			out[i].ClockAhead = durationpb.New(*w.ClockAhead)
		}
	}
	return out
}
