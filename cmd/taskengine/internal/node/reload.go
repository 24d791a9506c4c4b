package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/taskengine/taskengine/config"
	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/server"
	"github.com/taskengine/taskengine/task"
	"github.com/taskengine/taskengine/timeslice/slicer"
)

// reloadRequest asks for a reload.
type reloadRequest struct {
	by   server.ReloadedBy
	done chan reloaded // gets the outcome; it has room for one
}

// bySignal asks for the reload of a signal.
func bySignal() reloadRequest {
	return reloadRequest{server.ReloadedBy{Who: "local", From: "SIGHUP"}, make(chan reloaded, 1)}
}

// reloadAsAsked reloads the configuration for each value of n.Reloads and for each request, until ctx ends.
func (n *Node) reloadAsAsked(ctx context.Context, p *parts) {
	for {
		r := bySignal()
		select {
		case <-ctx.Done():
			return
		case r = <-p.reloads:
		case <-n.Reloads:
		}
		n.Manager.Reloading()
		done := n.reload(ctx, p)
		done.log(ctx, n.Log, p.audit, r.by)
		n.Manager.Ready()
		r.done <- done
	}
}

// reloadBy has the configuration reloaded for a client. After ctx has ended, it goes on.
func (p *parts) reloadBy(ctx context.Context, by server.ReloadedBy) (out server.Reload, err error) {
	r := reloadRequest{by, make(chan reloaded, 1)}
	var done reloaded
	select {
	case p.reloads <- r:
	case <-ctx.Done():
		return out, context.Cause(ctx)
	}
	select {
	case done = <-r.done:
	case <-ctx.Done():
		return out, context.Cause(ctx)
	}
	out.Err, out.Unchanged = done.err, done.isVoid
	for _, c := range done.applied {
		out.Changes = append(out.Changes, server.ConfigChange{Key: c.Key, Before: c.Before, After: c.After})
	}
	for _, c := range done.restart {
		out.Changes = append(out.Changes, server.ConfigChange{Key: c.Key, Before: c.Before, After: c.After, Restart: true})
	}
	slices.SortStableFunc(out.Changes, func(a, b server.ConfigChange) int { return strings.Compare(a.Key, b.Key) })
	return out, nil
}

// reloaded is the outcome of a reload.
type reloaded struct {
	applied []config.Change // since the file was last read: this node now has the values of the file, or tries to
	restart []config.Change // since the start: the values from before are in force until the node restarts
	err     error           // why nothing was changed, or which changes in applied failed
	isVoid  bool            // nothing was changed
}

// refused returns the outcome of a reload that has changed nothing.
func refused(err error) reloaded { return reloaded{err: err, isVoid: true} }

// keysOf returns the keys of changes.
func keysOf(changes []config.Change) (keys []string) {
	for _, c := range changes {
		keys = append(keys, c.Key)
	}
	return keys
}

// log writes the outcome to the log of the node and the audit log.
func (r *reloaded) log(ctx context.Context, log, audit *slog.Logger, by server.ReloadedBy) {
	outcome := "ok"
	if r.isVoid {
		log.Error("not reloaded: the configuration is invalid, and nothing was changed", "error", r.err)
		outcome = "invalid_argument"
	} else {
		outcome = r.logChanges(log)
	}
	if audit == nil {
		return
	}
	attributes := []slog.Attr{
		slog.String("who", by.Who), slog.String("from", by.From), slog.String("verb", "Reload"), slog.String("outcome", outcome),
		slog.Any("what", map[string]any{"applied": keysOf(r.applied), "restart": keysOf(r.restart)}),
	}
	if r.err != nil {
		attributes = append(attributes, slog.String("error", r.err.Error()))
	}
	audit.LogAttrs(ctx, slog.LevelInfo, "audit", attributes...)
}

// logChanges logs each change, and returns the outcome for the audit log.
func (r *reloaded) logChanges(log *slog.Logger) (outcome string) {
	for _, c := range r.applied {
		log.Info("a change of the configuration is applied", "key", c.Key, "before", c.Before, "after", c.After)
	}
	for _, c := range r.restart {
		log.Warn("a change of the configuration needs a restart: the value from before is in force", "key", c.Key, "before", c.Before, "after", c.After)
	}
	if r.err != nil {
		log.Error("the configuration is reloaded, but for parts of it", "applied", len(r.applied), "restart", len(r.restart), "error", r.err)
		return "internal"
	}
	log.Info("the configuration is reloaded", "applied", len(r.applied), "restart", len(r.restart))
	return "ok"
}

// reload applies the current configuration as far as a running node can, see [config.Config.Adopt], and gives each plugin new processes. A
// configuration that is invalid, or that the engine refuses, changes nothing. A schedule or a plugin that fails after that goes on as before.
func (n *Node) reload(ctx context.Context, p *parts) (r reloaded) {
	next, err := n.Again()
	if err != nil {
		return refused(err)
	}
	inForce := p.inForce.Adopt(next)
	redaction, err := redactionOf(inForce)
	if err != nil {
		return refused(err)
	}
	handlers, err := p.replacedHandlers(inForce)
	if err != nil {
		return refused(err)
	}
	for _, change := range config.Changes(p.file, next) {
		if change.IsLive {
			r.applied = append(r.applied, change)
		}
	}
	for _, change := range config.Changes(n.Config, next) {
		if !change.IsLive {
			r.restart = append(r.restart, change)
		}
	}
	policies := inForce.Policies()
	maps.Copy(policies.Types, p.sources.Policies())
	maps.Copy(policies.Types, p.slices.Policies())
	err = p.engine.Adopt(ctx, policies, handlers)
	if errors.Is(err, engine.ErrInvalid) {
		return refused(fmt.Errorf("together with the parts that need a restart: %w", err))
	}
	p.planner.policies.Store(&policies)
	p.service.SetRedaction(redaction)
	if slices.ContainsFunc(r.applied, func(c config.Change) bool { return strings.HasPrefix(c.Key, "alerts.") }) {
		p.alerts.Replace(inForce)
	}
	p.inForce, p.file = inForce, next
	r.err = errors.Join(err, p.applySchedulesOf(ctx, next), n.reloadPlugins(ctx, p.handlers, inForce))
	return r
}

// replacedHandlers returns the handlers of the types that have another one in a configuration, or one with other settings.
func (p *parts) replacedHandlers(c *config.Config) (map[string]task.Handler, error) {
	replaced := make(map[string]task.Handler)
	byName, err := builtIn(c, p.node.Log)
	if err != nil {
		return nil, err
	}
	for typ, t := range c.Types {
		was := p.inForce.Types[typ].Handler
		if h, ok := byName[t.Handler]; ok && (was != t.Handler || !reflect.DeepEqual(p.inForce.Handlers[was], c.Handlers[was])) {
			replaced[typ] = h
		}
	}
	for _, d := range c.TimeSlices() {
		if h, ok := replaced[d.Type]; ok {
			replaced[d.Type] = slicer.Handler(h)
		}
	}
	return replaced, nil
}

// reloadPlugins gives each plugin new processes.
func (n *Node) reloadPlugins(ctx context.Context, set *handlerSet, c *config.Config) error {
	var all sync.WaitGroup
	var mu sync.Mutex
	var failed error // guarded by mu
	for _, name := range slices.Sorted(maps.Keys(set.hosts)) {
		all.Go(func() {
			if err := set.hosts[name].Reload(ctx, set.pluginConfig(c, name, n.Log)); err != nil {
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
