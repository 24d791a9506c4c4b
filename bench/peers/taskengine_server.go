package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"

	"github.com/taskengine/taskengine/bench/result"
	"github.com/taskengine/taskengine/client"
	"github.com/taskengine/taskengine/plugins/handler"
	"github.com/taskengine/taskengine/task"
)

// taskengineServerSubjects are a node in a process of its own, to which the client and a worker connect through a socket,
// as with the other servers.
func taskengineServerSubjects() []subject {
	about := func(settings string) result.Subject {
		return result.Subject{
			Name: "taskengine", Revision: revision(), Store: "pebble",
			Settings:   settings + "; a node, and in the measuring process a client and a worker; unix socket",
			Durability: "every insert and every outcome is fsynced before it is acknowledged, in groups; what ended is kept for 7 days",
		}
	}
	return []subject{{
		Subject: about("slots as found"),
		short:   "taskengine-server-best", durable: true, main: true, batch: client.MaxAll, loaders: 2, singles: 512,
		variants: counts("slots", openServer, defaultSlots, 512, 1024),
	}, {
		Subject: about(fmt.Sprintf("defaults: %d slots of the node, and 64 of the worker", defaultSlots)),
		short:   "taskengine-server", durable: true, batch: client.MaxAll, loaders: 2, singles: 512,
		variants: only(func(ctx context.Context, e env) (peer, error) { return openServer(ctx, e, 0) }),
	}}
}

type serverPeer struct {
	node    *process
	address string
	client  *client.Client
	slots   int
	stop    context.CancelFunc // ends the worker; nil until work
	working sync.WaitGroup
	failure workFailure
}

// openServer starts a node with so many slots, and as many of the worker. 0 is the defaults of both.
func openServer(ctx context.Context, e env, slots int) (peer, error) {
	socket, config := filepath.Join(e.dir, "api.sock"), filepath.Join(e.dir, "taskengine.yaml")
	node := ""
	if slots > 0 {
		node = fmt.Sprintf("node: {slots: %d}\n", slots)
	}
	text := fmt.Sprintf("%sstorage: {driver: pebble, path: %q}\napi: {listen: none, socket: %q}\nadmin: {listen: none}\n"+
		"handlers: {worker: {remote: {}}}\ntypes: {%s: {handler: worker}}\n", node, filepath.Join(e.dir, "tasks"), socket, taskType)
	if err := os.WriteFile(config, []byte(text), 0o644); err != nil {
		return nil, err
	}
	p := &serverPeer{address: "unix:" + socket, slots: slots}
	var err error
	if p.node, err = startProcess(e.dir, nil, filepath.Join(e.bin, "taskengine"), "run", "-c", config); err != nil {
		return nil, err
	}
	if err := p.node.until(ctx, accepts("unix", socket)); err != nil {
		return nil, err
	}
	if p.client, err = client.Open([]string{p.address}, client.Options{}); err != nil {
		return nil, errors.Join(err, p.node.stop())
	}
	return p, nil
}

func (p *serverPeer) insert(ctx context.Context, payloads ...[]byte) error {
	if len(payloads) == 1 {
		_, err := p.client.Submit(ctx, taskType, client.Raw(payloads[0]))
		return err
	}
	requests := make([]client.Request, len(payloads))
	for i, b := range payloads {
		var err error
		if requests[i], err = client.New(taskType, client.Raw(b)); err != nil {
			return err
		}
	}
	_, err := p.client.SubmitAll(ctx, requests...)
	return err
}

func (p *serverPeer) work(ctx context.Context, handle func([]byte)) error {
	ctx, p.stop = context.WithCancel(context.WithoutCancel(ctx))
	program := handler.Program{Slots: p.slots, Handlers: handler.Handlers{
		taskType: handler.Func(func(_ context.Context, t *task.Task) ([]byte, error) {
			handle(t.Payload)
			return nil, nil
		}),
	}}
	p.working.Go(func() {
		if err := program.Work(ctx, handler.Connection{Addresses: []string{p.address}, Log: slog.New(slog.DiscardHandler)}); err != nil {
			p.failure.note(fmt.Errorf("taskengine: the worker ended: %w", err))
		}
	})
	return nil
}

func (p *serverPeer) version(context.Context) (queue, store string, err error) {
	return "of this repository", "pebble " + moduleVersion("github.com/cockroachdb/pebble/v2"), nil
}

func (p *serverPeer) idle(ctx context.Context) (bool, error) {
	if err := p.failure.err(); err != nil {
		return false, err
	}
	for _, err := range p.client.Tasks(ctx, client.TaskFilter{States: []client.State{client.StateWaiting, client.StateSubmitted, client.StateProcessing}}) {
		return false, err
	}
	return true, nil
}

func (p *serverPeer) close() error {
	p.failure.close()
	if p.stop != nil {
		p.stop()
	}
	p.working.Wait()
	return errors.Join(p.client.Close(), p.node.stop())
}
