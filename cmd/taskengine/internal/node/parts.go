package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/taskengine/taskengine/bulk"
	"github.com/taskengine/taskengine/bulk/jobs"
	"github.com/taskengine/taskengine/cmd/taskengine/internal/alerting"
	"github.com/taskengine/taskengine/cmd/taskengine/internal/database"
	"github.com/taskengine/taskengine/cmd/taskengine/internal/descriptors"
	"github.com/taskengine/taskengine/cmd/taskengine/internal/hooks"
	"github.com/taskengine/taskengine/cmd/taskengine/internal/stores"
	"github.com/taskengine/taskengine/cmd/taskengine/internal/traces"
	"github.com/taskengine/taskengine/config"
	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/kafka/consume"
	"github.com/taskengine/taskengine/schedule"
	"github.com/taskengine/taskengine/schedule/scheduler"
	"github.com/taskengine/taskengine/server"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
	"github.com/taskengine/taskengine/timeslice/slicer"
	"github.com/taskengine/taskengine/workflow"
	"github.com/taskengine/taskengine/workflow/runner"
)

// closeTimeout is how long each part of a node may take to close. By then nothing uses it.
const closeTimeout = 5 * time.Second

// parts are the open parts of a node. One goroutine opens and closes them.
type parts struct {
	node *Node

	admin    *endpoint
	store    storage.Store
	others   *coordination
	taskLog  taskLog
	handlers *handlerSet
	sources  *consume.Sources
	slices   *slicer.Sources
	failures *server.FailureLog
	spans    *traces.Sender     // nil without tracing
	tokens   *clientTokens      // nil if clients need none
	audit    *slog.Logger       // nil for none
	stop     func(reason error) // drains the node
	engine   *engine.Engine
	alerts   *alerting.Current
	planner  *planner
	service  *server.API
	api      *endpoint // of service
	socket   *endpoint // likewise

	opened []part // in the order of opening

	reloads chan reloadRequest // of clients; nobody receives while the node does not serve

	inForce *config.Config // by the last reload, or as at the start; owned by the goroutine that reloads
	file    *config.Config // as it was last read, likewise
}

// part is an open part and how it is closed.
type part struct {
	name  string
	close func(context.Context) error
}

// open opens the parts, each after the parts that it uses. The caller closes the parts after an error,
// too.
func (p *parts) open(ctx context.Context) error {
	n := p.node
	n.backups.Log = n.Log
	n.metrics = server.NewMetrics(slices.Sorted(maps.Keys(n.Config.Types)), n.Build)
	n.metrics.WatchHealth(&n.health)
	files := descriptors.Limit()
	share := descriptors.Divide(files, n.Config.Node.Slots)
	share.WarnOfFew(n.Log, files)
	if err := p.openAccess(); err != nil {
		return err
	}
	if err := p.openAdmin(ctx, share.Admin); err != nil {
		return err
	}
	if err := p.openStore(ctx); err != nil {
		return err
	}
	if err := p.openHandlers(ctx); err != nil {
		return err
	}
	if err := p.openSources(); err != nil {
		return err
	}
	if err := p.openTracing(ctx); err != nil {
		return err
	}
	if err := p.openEngine(ctx); err != nil {
		return err
	}
	if err := p.openKept(ctx); err != nil {
		return err
	}
	p.openAlerts()
	p.openHooks()
	return p.openAPI(ctx, share.API)
}

// add notes a part that is open.
func (p *parts) add(name string, closer func(context.Context) error) {
	p.opened = append(p.opened, part{name, closer})
}

// close closes the parts in the opposite order: no part is closed before the parts that use it. It
// logs an error and goes on.
func (p *parts) close() {
	for _, one := range slices.Backward(p.opened) {
		ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
		if err := one.close(ctx); err != nil && !errors.Is(err, engine.ErrFailed) {
			p.node.Log.Warn("a part did not close cleanly", "part", one.name, "error", err)
		}
		cancel()
	}
}

// openAccess opens the tokens and the audit log of both listeners.
func (p *parts) openAccess() (err error) {
	if err := p.openTokens(); err != nil {
		return err
	}
	p.audit, err = p.openAudit()
	return err
}

// openAdmin opens the admin listener first, so that it can say that the node is not ready while that
// opens.
func (p *parts) openAdmin(ctx context.Context, connections int) (err error) {
	n := p.node
	encryption, err := n.encryption("admin", n.Config.Admin)
	if err != nil {
		return err
	}
	p.admin, err = n.listen(ctx, n.Config.Admin.Listen, n.Config.Admin.AsksClients(), server.ListenConfig{Strict: true, MaxConnections: connections, TLS: encryption, Handler: server.NewAdmin(server.AdminConfig{
		Health: &n.health, Metrics: n.metrics, Build: n.Build, Backups: &n.backups, Scaler: n.Config.Admin.Scaler,
		Token: n.Config.Admin.Token.Reveal(), Tokens: p.tokens.valid(), Distrusts: n.Config.Distrusts(), Audit: p.audit,
	})})
	if err == nil {
		p.add("the admin listener", p.admin.close)
	}
	return err
}

// openStore opens the store, and the coordination with other nodes that use it.
func (p *parts) openStore(ctx context.Context) (err error) {
	n := p.node
	if p.store, err = stores.Open(ctx, n.Config.Storage, n.Log); err != nil {
		return err
	}
	p.add("the store", func(context.Context) error { return p.store.Close() })
	if err := database.Retry(ctx, n.Config.Storage, n.Log, func(ctx context.Context) error { return stores.CheckCopied(ctx, p.store) }); err != nil {
		return err
	}
	n.backups.Offer(n.Config.Storage.Path, p.store)
	p.others, err = openCoordination(ctx, n.Config, n.Log)
	p.add("the coordination", p.others.close)
	return err
}

// openHandlers opens the log of the tasks and the handlers.
func (p *parts) openHandlers(ctx context.Context) (err error) {
	n := p.node
	if p.taskLog, err = openTaskLog(n.Config, p.store, n.Name, n.Log); err != nil {
		return err
	}
	p.add("the task log", p.taskLog.close)
	if p.handlers, err = openHandlers(ctx, placed(n.Config, n.Name, n.Log), n.Name, n.Log); err != nil {
		return err
	}
	p.add("the handlers", p.handlers.Close)
	maps.Copy(p.handlers.byType, n.Extra)
	p.handlers.byType[bulk.Type] = jobs.Handler(jobs.Config{Log: n.Log, Changed: server.ChangedByJobs(n.metrics, p.taskLog.Ended)})
	p.handlers.byType[schedule.Type] = scheduler.HandlerOf(n.workflow)
	p.handlers.byType[workflow.Type] = runner.Handler
	return nil
}

// workflow returns the request of a workflow of the configuration. It is a [scheduler.Workflows].
func (n *Node) workflow(name string, input []byte) (task.Request, error) {
	if d := n.Config.Workflows[name]; d != nil {
		return workflow.Request(d, input)
	}
	return task.Request{}, fmt.Errorf("%w: %.80q", scheduler.ErrNoWorkflow, name)
}

// openTracing begins to send spans, if the configuration wants that.
func (p *parts) openTracing(ctx context.Context) (err error) {
	n := p.node
	if n.Config.Tracing.Endpoint == "" {
		return nil
	}
	p.spans, err = traces.Open(ctx, n.Config.Tracing, traces.Node{Name: n.Name, Version: n.Build.Version, Log: n.Log})
	if err == nil {
		p.add("the sending of spans", p.spans.Close)
	}
	return err
}

// openEngine opens the engine, which begins to run tasks.
func (p *parts) openEngine(ctx context.Context) (err error) {
	n := p.node
	p.failures = server.NewFailureLog(n.Log)
	p.add("the log of failures", func(context.Context) error {
		p.failures.Close()
		return nil
	})
	policies := n.Config.Policies()
	policies.Types[bulk.Type] = jobs.TypePolicy()
	policies.Types[schedule.Type] = scheduler.TypePolicy()
	policies.Types[workflow.Type] = runner.TypePolicy()
	p.addSources(policies.Types, p.handlers.byType)
	p.planner = &planner{file: n.Config.UI.Plan, store: n.Config.Storage.Driver.String()}
	p.planner.policies.Store(&policies)
	p.inForce, p.file, p.reloads = n.Config, n.Config, make(chan reloadRequest)
	conf := engine.Config{
		Store: p.store, Policies: policies, Handlers: p.handlers.byType, Name: n.Name, Labels: n.Config.Coordination.Labels, Version: n.Build.Version, Log: n.Log,
		Observer: server.Observers(n.metrics.Observer(), p.failures.Observer(), server.Ended(p.taskLog.Ended)),
		TaskLog:  p.taskLog.Log, Await: p.handlers.await(n.Config), Manual: n.Manual,
	}
	if conf.Codec, err = codecOf(n.Config.Encoding); err != nil {
		return err
	}
	if p.spans != nil {
		conf.Wrap, conf.Decorate = p.spans.Wrap, p.spans.Decorate
	}
	p.others.configure(&conf, n.Config.Coordination)
	err = database.Retry(ctx, n.Config.Storage, n.Log, func(ctx context.Context) (err error) {
		p.engine, err = engine.Open(ctx, conf)
		return err
	})
	if err != nil {
		return err
	}
	p.add("the engine", p.engine.Close) // it is drained by then, unless opening the API failed
	n.metrics.Watch(p.engine, p.handlers.Status)
	n.metrics.WatchSources(p.shownSources())
	p.background("the schedules", func(ctx context.Context) { scheduler.Of(p.engine).Follow(ctx, p.node.Log) })
	p.watchLogs()
	if err := database.Retry(ctx, n.Config.Storage, n.Log, p.applySchedules); err != nil {
		return err
	}
	if err := p.applySources(ctx); err != nil {
		return err
	}
	p.watchSlices()
	return nil
}

// watchLogs begins to remove logs of tasks that are erased and, from the store, of tasks that are gone.
func (p *parts) watchLogs() {
	n := p.node
	if p.taskLog.Log != nil && !p.taskLog.IsStored() {
		e := &logEraser{engine: p.engine, lines: p.taskLog.Log, log: n.Log}
		p.background("the eraser of lines", e.run)
	}
	if keeper, ok := p.store.(storage.LogKeeper); ok {
		s := &logSweeper{engine: p.engine, store: p.store, logs: keeper, most: -1, log: n.Log}
		if c := n.Config.TaskLog; c.InStore {
			s.most = int64(c.MaxSize)
		}
		p.background("the sweeper of logs", s.run)
	}
}

// background runs a goroutine until the node stops.
func (p *parts) background(name string, run func(ctx context.Context)) {
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { run(ctx) })
	p.add(name, func(context.Context) error {
		stop()
		running.Wait()
		return nil
	})
}

// applySchedules makes the schedules be as the configuration says.
func (p *parts) applySchedules(ctx context.Context) error {
	return p.applySchedulesOf(ctx, p.node.Config)
}

func (p *parts) applySchedulesOf(ctx context.Context, c *config.Config) error {
	all := scheduler.Of(p.engine)
	for _, name := range slices.Sorted(maps.Keys(c.Schedules)) {
		outcome, err := all.ApplyLater(ctx, name, c.Schedules[name])
		switch {
		case errors.Is(err, scheduler.ErrUnreadable), errors.Is(err, scheduler.ErrTaken): // no reason to run nothing else
			p.node.Log.Error("cannot apply a schedule of the configuration", "schedule", name, "error", err)
			continue
		case err != nil:
			return err
		}
		if outcome != scheduler.Unchanged {
			p.node.Log.Info("applied a schedule of the configuration", "schedule", name, "outcome", outcome.String())
		}
	}
	return nil
}

// openAlerts begins with the alerts, which observe the engine and the handlers.
func (p *parts) openAlerts() {
	n := p.node
	p.alerts = alerting.Begin(alerting.Config{Config: n.Config, Node: n.Name, Store: p.store, Engine: p.engine, Handlers: p.handlers.Status, Sources: p.shownSources(), Slices: p.slices, Peers: p.others.peers(), Log: n.Log})
	p.add("the alerts", func(ctx context.Context) error {
		p.alerts.Load().Stop()
		select {
		case <-p.engine.Failed():
			p.alerts.Load().StoreFailed(engine.ErrFailed)
		default:
			p.alerts.Load().Leave(ctx)
		}
		return nil
	})
}

// openHooks begins to post changes of tasks to the URLs of the configuration.
func (p *parts) openHooks() {
	n := p.node
	if len(n.Config.On) == 0 {
		return
	}
	all := hooks.Start(hooks.Config{Hooks: n.Config.On, Node: n.Name, Engine: p.engine, Store: p.store, Log: n.Log})
	n.metrics.WatchHooks(all.Counts)
	p.add("the hooks", func(context.Context) error {
		all.Stop()
		return nil
	})
}
