package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"

	"github.com/taskengine/taskengine/config"
)

// reloadAsAsked reloads the configuration for each value of n.Reloads, until ctx ends.
func (n *Node) reloadAsAsked(ctx context.Context, p *parts) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-n.Reloads:
			n.Manager.Reloading()
			done := n.reload(ctx, p)
			done.log(ctx, n.Log, p.audit)
			n.Manager.Ready()
		}
	}
}

// reloaded is the outcome of a reload.
type reloaded struct {
	applied []string // keys that this node now has as the file says, or tries to
	restart []string // keys that take a restart: the values from before are in force
	err     error    // why nothing was changed, or what of applied was not
}

// log writes the outcome to the log of the node and the audit log.
func (r *reloaded) log(ctx context.Context, log, audit *slog.Logger) {
	outcome := "ok"
	switch {
	case r.err != nil && r.applied == nil && r.restart == nil:
		log.Error("not reloaded: the configuration is invalid, and nothing was changed", "error", r.err)
		outcome = "invalid_argument"
	case r.err != nil:
		log.Error("the configuration is reloaded, but for parts of it", "applied", r.applied, "restart", r.restart, "error", r.err)
		outcome = "internal"
	default:
		log.Info("the configuration is reloaded", "applied", r.applied, "restart", r.restart)
	}
	if len(r.restart) > 0 {
		log.Warn("the configuration has changes that need a restart: the values from before are in force", "keys", r.restart)
	}
	if audit == nil {
		return
	}
	attributes := []slog.Attr{
		slog.String("who", "local"), slog.String("from", "SIGHUP"), slog.String("verb", "Reload"), slog.String("outcome", outcome),
		slog.Any("what", map[string]any{"applied": r.applied, "restart": r.restart}),
	}
	if r.err != nil {
		attributes = append(attributes, slog.String("error", r.err.Error()))
	}
	audit.LogAttrs(ctx, slog.LevelInfo, "audit", attributes...)
}

// reload applies what a node that runs can apply of the configuration as it is now: redaction, schedules, and the settings of plugins, each of which
// gets new processes, too. An invalid configuration changes nothing. A plugin that was not reloaded goes on as before.
func (n *Node) reload(ctx context.Context, p *parts) (r reloaded) {
	next, err := n.Again()
	if err != nil {
		return reloaded{err: err}
	}
	redaction, err := redactionOf(next)
	if err != nil {
		return reloaded{err: err}
	}
	for _, change := range config.Changes(n.Config, next) {
		if change.IsLive {
			r.applied = append(r.applied, change.Key)
		} else {
			r.restart = append(r.restart, change.Key)
		}
	}
	p.service.SetRedaction(redaction)
	r.err = errors.Join(p.applySchedulesOf(ctx, next), n.reloadPlugins(ctx, p.handlers, next))
	return r
}

// reloadPlugins gives each plugin new processes.
func (n *Node) reloadPlugins(ctx context.Context, set *handlerSet, next *config.Config) error {
	var all sync.WaitGroup
	var mu sync.Mutex
	var failed error // guarded by mu
	for _, name := range slices.Sorted(maps.Keys(set.hosts)) {
		if next.Handlers[name].Plugin == nil {
			n.Log.Warn("the handler is no longer a plugin, which needs a restart", "handler", name)
			continue
		}
		all.Go(func() {
			if err := set.hosts[name].Reload(ctx, set.pluginConfig(next, name, n.Log)); err != nil {
				n.Log.Error("the handler was not reloaded and goes on as before", "handler", name, "error", err)
				mu.Lock()
				failed = errors.Join(failed, fmt.Errorf("handler %s: %w", name, err))
				mu.Unlock()
				return
			}
			n.Log.Info("the handler is reloaded", "handler", name, "pid", set.hosts[name].Status().PID)
		})
	}
	all.Wait()
	return failed
}
