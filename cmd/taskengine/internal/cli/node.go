package cli

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

	"github.com/taskengine/taskengine/config"
	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/engine/task"
	"github.com/taskengine/taskengine/server"
)

// closeTimeout is how long each part of a node may take to close, when everything it
// waited for is over already.
const closeTimeout = 5 * time.Second

// node is a node of `taskengine run`: what it is made of, and what it is told.
type node struct {
	config  *config.Config
	log     *slog.Logger
	build   server.Build
	name    string
	extra   map[string]task.Handler        // handlers of types that the program brings along
	notify  func(state string)             // tells the service manager; may do nothing
	again   func() (*config.Config, error) // reads the configuration anew; nil if nobody reloads
	reloads chan struct{}                  // asks to reload; nil if nobody does
	metrics *server.Metrics
	health  server.Health
	backups server.Backups
}

// run is the life of a node. It opens the parts from the inside out, serves until stop
// ends or something fails, and drains. The parts are closed in the opposite order, which
// is that of the deferred calls: nothing is closed before what uses it. When hurry ends,
// nothing is waited for any longer.
func (n *node) run(stop, hurry context.Context) (err error) {
	ready := false
	defer func() {
		if err != nil && !ready && stop.Err() != nil {
			n.log.Info("stopped before it was ready", "because", context.Cause(stop), "error", err)
			err = nil
		}
	}()
	n.backups.Log = n.log
	n.metrics = server.NewMetrics(slices.Sorted(maps.Keys(n.config.Types)), n.build)
	files := maxDescriptors()
	share := shareDescriptors(files, n.config.Node.Slots)
	share.warnOfFew(n.log, files)
	admin, err := n.listen(stop, n.config.Admin, share.admin, true, server.NewAdmin(server.AdminConfig{
		Health: &n.health, Metrics: n.metrics, Build: n.build, Backups: &n.backups,
		Token: n.config.Admin.Token.Reveal(),
	}))
	if err != nil {
		return err
	}
	defer n.close("the admin listener", admin.close)

	store, err := openStore(stop, n.config.Storage, n.log)
	if err != nil {
		return err
	}
	defer n.close("the store", func(context.Context) error { return store.Close() })
	if err := refuseHalfACopy(stop, store); err != nil {
		return err
	}
	n.backups.Offer(n.config.Storage.Path, store)

	others, err := openTogether(stop, n.config, n.log)
	if err != nil {
		return err
	}
	defer n.close("what agrees with other nodes", others.close)

	taskLog, err := openTaskLog(n.config, n.log)
	if err != nil {
		return err
	}
	defer n.close("the task log", taskLog.close)

	set, err := openHandlers(stop, n.config, n.log)
	if err != nil {
		return err
	}
	defer n.close("the handlers", set.Close)
	maps.Copy(set.byType, n.extra)

	failures := server.NewFailureLog(n.log)
	defer failures.Close()

	conf := engine.Config{
		Store: store, Policies: n.config.Policies(), Handlers: set.byType, Name: n.name, Log: n.log,
		Observer: server.Observers(n.metrics.Observer(), failures.Observer(), server.Ended(taskLog.Ended)),
		TaskLog:  taskLog.Log,
	}
	others.tell(&conf, n.config.Coordination)
	e, err := engine.Open(stop, conf)
	if err != nil {
		return err
	}
	defer n.close("the engine", e.Close) // drained by then, unless opening went wrong
	n.metrics.Watch(e, set.Status)

	api, err := n.listen(stop, n.config.API, share.api, false, server.NewAPI(server.APIConfig{
		Engine: e, Build: n.build, Node: n.name, Log: n.log, Metrics: n.metrics, MaxRequest: n.maxRequest(),
		TaskLog: taskLog.Log,
	}))
	if err != nil {
		return err
	}
	defer n.close("the API", api.close)

	n.health.Started(e, set.Status)
	n.log.Info("ready", "api", api.address(), "admin", admin.address(), "node", n.name,
		"storage", n.storage(), "types", len(set.byType), "version", n.build.Version)
	n.notify("READY=1")
	ready = true

	err = n.serve(stop, set, e, api, admin)
	n.notify("STOPPING=1")
	return errors.Join(err, n.drain(hurry, e))
}

// serve reloads as it is asked to, until the node is told to stop or cannot go on.
func (n *node) serve(stop context.Context, set *handlerSet, e *engine.Engine, api, admin *endpoint) error {
	reloading, over := context.WithCancel(stop)
	var reloads sync.WaitGroup
	reloads.Go(func() { n.reloadAsAsked(reloading, set) })
	defer reloads.Wait()
	defer over()
	select {
	case <-stop.Done():
		n.log.Info("stopping: running tasks may finish", "because", context.Cause(stop), "drain_timeout", n.config.Node.DrainTimeout)
		return nil
	case <-e.Failed():
		return nil // closing the engine says why
	case <-api.ended():
		return errors.New("the API listener has ended")
	case <-admin.ended():
		return errors.New("the admin listener has ended")
	}
}

// drain waits for the tasks that run. Meanwhile the API answers: it accepts nothing
// more, and those who wait for tasks hear of their end.
func (n *node) drain(hurry context.Context, e *engine.Engine) error {
	n.health.Draining()
	begin := time.Now()
	ctx, cancel := context.WithTimeout(hurry, n.config.Node.DrainTimeout)
	defer cancel()
	if err := e.Close(ctx); err != nil {
		return err
	}
	if ctx.Err() != nil {
		n.log.Warn("tasks that still ran were cancelled and handed back", "after", time.Since(begin))
		return nil
	}
	n.log.Info("stopped: no task runs", "after", time.Since(begin))
	return nil
}

// close closes a part. What goes wrong then is told, and takes nothing back.
func (n *node) close(what string, closer func(context.Context) error) {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	if err := closer(ctx); err != nil && !errors.Is(err, engine.ErrFailed) {
		n.log.Warn("closing did not go well", "what", what, "error", err)
	}
}

// maxRequest leaves room for the largest payload that a type allows, in base64.
func (n *node) maxRequest() int {
	most := server.DefaultMaxRequest
	for _, t := range n.config.Types {
		most = max(most, 2*t.MaxPayload)
	}
	return most
}

func (n *node) storage() string {
	switch c := n.config.Storage; c.Driver {
	case config.Memory:
		return "memory"
	case config.Postgres:
		return "postgres, schema " + c.Schema
	default:
		return c.Path
	}
}

// nodeName returns what people call the node.
func nodeName(c *config.Config) string {
	if c.Node.Name != "" {
		return c.Node.Name
	}
	host, err := os.Hostname()
	if err != nil {
		return "node"
	}
	return host
}

// endpoint is a listener, or none if the configuration wants none.
type endpoint struct{ listener *server.Listener }

func (n *node) listen(ctx context.Context, c config.Listener, connections int, strict bool, h http.Handler) (*endpoint, error) {
	if c.Listen == "" {
		return &endpoint{}, nil
	}
	l, err := server.Listen(ctx, server.ListenConfig{Address: c.Listen, Handler: h, Strict: strict, Log: n.log, MaxConnections: connections})
	if err != nil {
		return nil, fmt.Errorf("%w; is another node running here?", err)
	}
	switch {
	case l.Loopback():
	case strict:
		n.log.Info("other machines reach the health and the metrics of this node; backups and profiles ask who they are", "address", l.Addr().String())
	default:
		n.log.Warn("other machines reach the API, and it asks nobody who they are", "address", l.Addr().String())
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
