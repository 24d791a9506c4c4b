// Package node runs a node: it opens the parts that a configuration names, serves, drains and
// closes them. parts.go is the order in which the parts open and close; the other files open one
// kind of part each.
package node

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/taskengine/taskengine/cmd/taskengine/internal/systemd"
	"github.com/taskengine/taskengine/config"
	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/server"
	"github.com/taskengine/taskengine/task"
)

// Node is a node of `taskengine run`. Its exported fields are set before Run and do not change.
type Node struct {
	Config  *config.Config
	Log     *slog.Logger
	Build   server.Build
	Name    string                         // for operators and logs; see [NameOf]
	Extra   map[string]task.Handler        // handlers of further types than Config has; may be nil
	Manager *systemd.Manager               // is notified of the state of the node; may be nil
	Again   func() (*config.Config, error) // reads the configuration again; nil if Reloads is nil
	Reloads chan struct{}                  // each value asks for a reload; nil for none

	Manual  time.Time     // of a node for tests, see [engine.Config]; zero for none
	Serving func(Running) // called once the API is served; may be nil

	metrics *server.Metrics
	health  server.Health
	backups server.Backups
}

// Running has the parts of a node that serves its API.
type Running struct {
	Engine *engine.Engine
	API    string                   // the address
	Free   func(handler string) int // how many more tasks the workers of a handler take now
}

// Run opens the parts of a node from the inside out, serves until stop ends or a part fails, drains,
// and closes the parts in the opposite order. When hurry ends, Run waits for nothing any longer.
func (n *Node) Run(stop, hurry context.Context) (err error) {
	stop, end := context.WithCancelCause(stop)
	defer end(nil)
	p := &parts{node: n, stop: end}
	ready := false
	defer func() {
		if err != nil && !ready && stop.Err() != nil {
			n.Log.Info("stopped before it was ready", "because", context.Cause(stop), "error", err)
			err = nil
		}
	}()
	defer p.close()
	if err := p.open(stop); err != nil {
		return err
	}
	n.health.Started(p.engine, p.handlers.Status)
	if ui := n.Config.UI; ui.On && p.api.address() != "" {
		n.Log.Info("the dashboard is served", "url", p.scheme()+"://"+p.api.address()+ui.Path)
	}
	n.Log.Info("ready", "api", p.api.address(), "socket", p.socket.address(), "admin", p.admin.address(), "node", n.Name,
		"storage", n.storage(), "types", len(p.handlers.byType), "version", n.Build.Version)
	n.Manager.Ready()
	if n.Serving != nil {
		n.Serving(Running{p.engine, p.api.address(), p.handlers.free})
	}
	ready = true

	watched, unwatch := context.WithCancel(context.WithoutCancel(stop))
	var watch sync.WaitGroup
	watch.Go(func() { n.Manager.Watch(watched, func() { p.engine.Types() }) }) // an engine that hangs does not answer
	defer watch.Wait()
	defer unwatch()

	err = n.serve(stop, p)
	n.Manager.Stopping()
	p.service.Drain()
	p.alerts.Load().Stop() // a node that stops looks as if something were wrong with it
	p.sources.Stop()
	return errors.Join(err, n.drain(hurry, p.engine))
}

// serve reloads on request until stop ends or a part fails.
func (n *Node) serve(stop context.Context, p *parts) error {
	serving, over := context.WithCancel(stop)
	var all sync.WaitGroup
	all.Go(func() { n.reloadAsAsked(serving, p) })
	all.Go(func() { n.metrics.WatchActivity(serving) })
	all.Go(func() { n.metrics.WatchStandstills(serving, n.Log) })
	all.Go(func() { n.metrics.WatchSchedules(serving, p.engine) })
	all.Go(func() { n.metrics.WatchSlices(serving, p.engine, p.slices) })
	defer all.Wait()
	defer over()
	select {
	case <-stop.Done():
		n.Log.Info("stopping: running tasks may finish", "because", context.Cause(stop), "drain_timeout", n.Config.Node.DrainTimeout)
		return nil
	case <-p.engine.Failed():
		return nil // closing the engine says why
	case <-p.api.ended():
		return errors.New("the API listener has ended")
	case <-p.socket.ended():
		return errors.New("the listener on the socket of the API has ended")
	case <-p.admin.ended():
		return errors.New("the admin listener has ended")
	}
}

// drain waits for the tasks that run. Meanwhile the API answers: it accepts no tasks, and requests
// that wait for tasks get their results.
func (n *Node) drain(hurry context.Context, e *engine.Engine) error {
	n.health.Draining()
	begin := time.Now()
	ctx, cancel := context.WithTimeout(hurry, n.Config.Node.DrainTimeout)
	defer cancel()
	if err := e.Close(ctx); err != nil {
		return err
	}
	if ctx.Err() != nil {
		n.Log.Warn("tasks that still ran were cancelled and handed back", "after", time.Since(begin))
		return nil
	}
	n.Log.Info("stopped: no task runs", "after", time.Since(begin))
	return nil
}

func (n *Node) storage() string {
	switch c := n.Config.Storage; {
	case c.Driver.InFiles():
		return c.Path
	case c.Driver == config.Postgres:
		return "postgres, schema " + c.Schema
	default:
		return c.Driver.String()
	}
}

// NameOf returns the name of a node: that of its configuration, or that of the machine.
func NameOf(c *config.Config) string {
	if c.Node.Name != "" {
		return c.Node.Name
	}
	host, err := os.Hostname()
	if err != nil {
		return "node"
	}
	return host
}
