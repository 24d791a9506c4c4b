// Package node runs a node: it opens the parts that a configuration names, serves, drains and
// closes them. node.go is the order in which the parts open and close; each of the other files
// opens one of them.
package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/taskengine/taskengine/cmd/taskengine/internal/descriptors"
	"github.com/taskengine/taskengine/cmd/taskengine/internal/stores"
	"github.com/taskengine/taskengine/config"
	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/engine/task"
	"github.com/taskengine/taskengine/server"
)

// closeTimeout is how long each part of a node may take to close. By then nothing uses it.
const closeTimeout = 5 * time.Second

// Node is a node of `taskengine run`. Its exported fields are set before Run and do not change.
type Node struct {
	Config  *config.Config
	Log     *slog.Logger
	Build   server.Build
	Name    string                         // for people and logs; see [NameOf]
	Extra   map[string]task.Handler        // handlers of types beside those of Config; may be nil
	Notify  func(state string)             // tells the service manager the state of the node
	Again   func() (*config.Config, error) // reads the configuration again; nil if Reloads is nil
	Reloads chan struct{}                  // each value asks for a reload of the plugins; nil for none

	metrics *server.Metrics
	health  server.Health
	backups server.Backups
}

// Run opens the parts of a node from the inside out, serves until stop ends or a part fails, and
// drains. It closes the parts in the opposite order, by deferred calls: no part is closed before
// the parts that use it. When hurry ends, Run waits for nothing any longer.
func (n *Node) Run(stop, hurry context.Context) (err error) {
	ready := false
	defer func() {
		if err != nil && !ready && stop.Err() != nil {
			n.Log.Info("stopped before it was ready", "because", context.Cause(stop), "error", err)
			err = nil
		}
	}()
	n.backups.Log = n.Log
	n.metrics = server.NewMetrics(slices.Sorted(maps.Keys(n.Config.Types)), n.Build)
	files := descriptors.Limit()
	share := descriptors.Divide(files, n.Config.Node.Slots)
	share.WarnOfFew(n.Log, files)
	admin, err := n.listen(stop, n.Config.Admin, share.Admin, true, server.NewAdmin(server.AdminConfig{
		Health: &n.health, Metrics: n.metrics, Build: n.Build, Backups: &n.backups,
		Token: n.Config.Admin.Token.Reveal(),
	}))
	if err != nil {
		return err
	}
	defer n.close("the admin listener", admin.close)

	store, err := stores.Open(stop, n.Config.Storage, n.Log)
	if err != nil {
		return err
	}
	defer n.close("the store", func(context.Context) error { return store.Close() })
	if err := stores.CheckCopied(stop, store); err != nil {
		return err
	}
	n.backups.Offer(n.Config.Storage.Path, store)

	others, err := openCoordination(stop, n.Config, n.Log)
	if err != nil {
		return err
	}
	defer n.close("the coordination", others.close)

	taskLog, err := openTaskLog(n.Config, n.Log)
	if err != nil {
		return err
	}
	defer n.close("the task log", taskLog.close)

	set, err := openHandlers(stop, n.Config, n.Log)
	if err != nil {
		return err
	}
	defer n.close("the handlers", set.Close)
	maps.Copy(set.byType, n.Extra)

	failures := server.NewFailureLog(n.Log)
	defer failures.Close()

	conf := engine.Config{
		Store: store, Policies: n.Config.Policies(), Handlers: set.byType, Name: n.Name, Log: n.Log,
		Observer: server.Observers(n.metrics.Observer(), failures.Observer(), server.Ended(taskLog.Ended)),
		TaskLog:  taskLog.Log,
	}
	others.configure(&conf, n.Config.Coordination)
	e, err := engine.Open(stop, conf)
	if err != nil {
		return err
	}
	defer n.close("the engine", e.Close) // drained by then, unless opening went wrong
	n.metrics.Watch(e, set.Status)

	api, err := n.listen(stop, n.Config.API, share.API, false, server.NewAPI(server.APIConfig{
		Engine: e, Build: n.Build, Node: n.Name, Log: n.Log, Metrics: n.metrics, MaxRequest: n.maxRequest(),
		TaskLog: taskLog.Log,
	}))
	if err != nil {
		return err
	}
	defer n.close("the API", api.close)

	n.health.Started(e, set.Status)
	n.Log.Info("ready", "api", api.address(), "admin", admin.address(), "node", n.Name,
		"storage", n.storage(), "types", len(set.byType), "version", n.Build.Version)
	n.Notify("READY=1")
	ready = true

	err = n.serve(stop, set, e, api, admin)
	n.Notify("STOPPING=1")
	return errors.Join(err, n.drain(hurry, e))
}

// serve reloads on request until stop ends or a part fails.
func (n *Node) serve(stop context.Context, set *handlerSet, e *engine.Engine, api, admin *endpoint) error {
	reloading, over := context.WithCancel(stop)
	var reloads sync.WaitGroup
	reloads.Go(func() { n.reloadAsAsked(reloading, set) })
	defer reloads.Wait()
	defer over()
	select {
	case <-stop.Done():
		n.Log.Info("stopping: running tasks may finish", "because", context.Cause(stop), "drain_timeout", n.Config.Node.DrainTimeout)
		return nil
	case <-e.Failed():
		return nil // closing the engine says why
	case <-api.ended():
		return errors.New("the API listener has ended")
	case <-admin.ended():
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

// close closes a part. It logs an error, and the node goes on with closing.
func (n *Node) close(what string, closer func(context.Context) error) {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	if err := closer(ctx); err != nil && !errors.Is(err, engine.ErrFailed) {
		n.Log.Warn("closing did not go well", "what", what, "error", err)
	}
}

// maxRequest returns a limit of requests with room for the largest payload of any type in base64.
func (n *Node) maxRequest() int {
	most := server.DefaultMaxRequest
	for _, t := range n.Config.Types {
		most = max(most, 2*t.MaxPayload)
	}
	return most
}

func (n *Node) storage() string {
	switch c := n.Config.Storage; c.Driver {
	case config.Memory:
		return "memory"
	case config.Postgres:
		return "postgres, schema " + c.Schema
	default:
		return c.Path
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

// endpoint is a listener, or nil if the configuration has none.
type endpoint struct{ listener *server.Listener }

func (n *Node) listen(ctx context.Context, c config.Listener, connections int, strict bool, h http.Handler) (*endpoint, error) {
	if c.Listen == "" {
		return &endpoint{}, nil
	}
	l, err := server.Listen(ctx, server.ListenConfig{Address: c.Listen, Handler: h, Strict: strict, Log: n.Log, MaxConnections: connections})
	if err != nil {
		return nil, fmt.Errorf("%w; is another node running here?", err)
	}
	switch {
	case l.Loopback():
	case strict:
		n.Log.Info("other machines reach the health and the metrics of this node; backups and profiles ask who they are", "address", l.Addr().String())
	default:
		n.Log.Warn("other machines reach the API, and it asks nobody who they are", "address", l.Addr().String())
	}
	return &endpoint{l}, nil
}

func (e *endpoint) address() string {
	if e.listener == nil {
		return ""
	}
	return e.listener.Addr().String()
}

func (e *endpoint) ended() <-chan struct{} {
	if e.listener == nil {
		return nil
	}
	return e.listener.Ended()
}

func (e *endpoint) close(ctx context.Context) error {
	if e.listener == nil {
		return nil
	}
	return e.listener.Close(ctx)
}
