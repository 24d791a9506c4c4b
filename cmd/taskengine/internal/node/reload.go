package node

import (
	"context"
	"maps"
	"reflect"
	"slices"
	"sync"

	"github.com/taskengine/taskengine/config"
)

// reloadAsAsked reloads the plugins for each value of n.Reloads, until ctx ends.
func (n *Node) reloadAsAsked(ctx context.Context, set *handlerSet) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-n.Reloads:
			n.Manager.Reloading()
			n.reload(ctx, set)
			n.Manager.Ready()
		}
	}
}

// reload gives each plugin new processes, by the configuration as it is now. It logs errors; a
// plugin that was not reloaded goes on as before.
func (n *Node) reload(ctx context.Context, set *handlerSet) {
	next, err := n.Again()
	if err != nil {
		n.Log.Error("not reloaded: the configuration is invalid", "error", err)
		return
	}
	if !sameButPlugins(n.Config, next) {
		n.Log.Warn("the configuration has changes besides plugins, which need a restart")
	}
	var all sync.WaitGroup
	for _, name := range slices.Sorted(maps.Keys(set.hosts)) {
		if next.Handlers[name].Plugin == nil {
			n.Log.Warn("the handler is no longer a plugin, which needs a restart", "handler", name)
			continue
		}
		all.Go(func() {
			if err := set.hosts[name].Reload(ctx, set.pluginConfig(next, name, n.Log)); err != nil {
				n.Log.Error("the handler was not reloaded and goes on as before", "handler", name, "error", err)
				return
			}
			n.Log.Info("the handler is reloaded", "handler", name, "pid", set.hosts[name].Status().PID)
		})
	}
	all.Wait()
}

// sameButPlugins reports whether two configurations differ in nothing but the settings of plugins.
func sameButPlugins(a, b *config.Config) bool {
	return reflect.DeepEqual(blanked(a), blanked(b))
}

// blanked returns the exported fields of a configuration by name, with the settings of all plugins
// removed.
func blanked(c *config.Config) map[string]any {
	out := make(map[string]any)
	v := reflect.ValueOf(*c)
	for i := range v.NumField() {
		if f := v.Type().Field(i); f.IsExported() {
			out[f.Name] = v.Field(i).Interface()
		}
	}
	handlers := maps.Clone(c.Handlers)
	for name, h := range handlers {
		if h.Plugin != nil {
			h.Plugin = new(config.Plugin)
			handlers[name] = h
		}
	}
	out["Handlers"] = handlers
	return out
}
