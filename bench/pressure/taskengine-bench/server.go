package main

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"sync"

	"github.com/taskengine/taskengine/bench/pressure/adapter"
	"github.com/taskengine/taskengine/client"
	"github.com/taskengine/taskengine/plugins/handler"
	"github.com/taskengine/taskengine/task"
)

// remote is a client and a worker of a node in another process.
type remote struct {
	address string
	slots   int
	client  *client.Client
	stop    context.CancelFunc // ends the worker; nil without one
	working sync.WaitGroup
}

func openServer(c adapter.Config, address string) (adapter.Queue, error) {
	if address == "" {
		return nil, errors.New("-through server needs -address, that of the node")
	}
	api, err := client.Open([]string{address}, client.Options{})
	if err != nil {
		return nil, err
	}
	return &remote{address: address, slots: c.Workers, client: api}, nil
}

// Insert implements adapter.Queue.
func (r *remote) Insert(ctx context.Context, payloads [][]byte) error {
	if len(payloads) == 1 {
		_, err := r.client.Submit(ctx, jobType, client.Raw(payloads[0]))
		return err
	}
	requests := make([]client.Request, len(payloads))
	for i, b := range payloads {
		var err error
		if requests[i], err = client.New(jobType, client.Raw(b)); err != nil {
			return err
		}
	}
	_, err := r.client.SubmitAll(ctx, requests...)
	return err
}

// Work implements adapter.Queue.
func (r *remote) Work(ctx context.Context, handle func([]byte)) error {
	ctx, r.stop = context.WithCancel(context.WithoutCancel(ctx))
	program := handler.Program{Slots: r.slots, Handlers: handler.Handlers{
		jobType: handler.Func(func(_ context.Context, t *task.Task) ([]byte, error) {
			handle(t.Payload)
			return nil, nil
		}),
	}}
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	r.working.Go(func() {
		if err := program.Work(ctx, handler.Connection{Addresses: []string{r.address}, Log: log}); err != nil {
			log.Error("the worker has ended", "error", err)
		}
	})
	return nil
}

// Counts implements adapter.Queue.
func (r *remote) Counts(ctx context.Context) (c adapter.Counts, err error) {
	counts, err := r.client.Count(ctx, client.TaskFilter{Types: []string{jobType}})
	for _, n := range counts {
		switch n.State {
		case client.StateDone:
			c.Ended += n.Count
		case client.StateSubmitted:
			c.Ready += n.Count
			c.Open += n.Count
		case client.StateWaiting, client.StateProcessing:
			c.Open += n.Count
		}
	}
	return c, err
}

// Close implements adapter.Queue.
func (r *remote) Close() error {
	if r.stop != nil {
		r.stop()
	}
	r.working.Wait()
	return r.client.Close()
}
