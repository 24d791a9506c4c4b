package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/taskengine/taskengine/config"
	"github.com/taskengine/taskengine/plugins"
)

const (
	startsPerCore = 2                // plugins that start at the same time, for each processor
	firstStarts   = 30 * time.Second // the time that a node waits for the first start of all plugins
)

// errSlowStart is the error of a plugin if its first start takes longer than the node waits.
var errSlowStart = fmt.Errorf("it has not started within %v", firstStarts)

// startPlugins starts the plugins, a few at a time, and waits for the first start of each.
// A plugin that fails is started again in the background; if the configuration is strict, the
// failure is an error.
func (s *handlerSet) startPlugins(ctx context.Context, c *config.Config, log *slog.Logger) error {
	s.turns = plugins.NewTurns(startsPerCore * runtime.GOMAXPROCS(0))
	for _, name := range slices.Sorted(maps.Keys(c.Handlers)) {
		if c.Handlers[name].Plugin == nil {
			continue
		}
		host, err := plugins.Open(s.pluginConfig(c, name, log))
		if err != nil {
			return fmt.Errorf("handler %s: %w", name, err)
		}
		s.hosts[name] = host
	}
	strict := c.Node.StrictHandlers
	waiting, cancel := ctx, context.CancelFunc(func() {})
	if !strict {
		waiting, cancel = context.WithTimeoutCause(ctx, firstStarts, errSlowStart)
	}
	defer cancel()
	failed := s.firstStarts(waiting)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	var all []error
	for _, name := range slices.Sorted(maps.Keys(failed)) {
		all = append(all, fmt.Errorf("handler %s: %w", name, failed[name]))
		if strict {
			continue
		}
		log.Error("the node starts without a handler: its tasks wait, and its program is started again and again; correct the program or the configuration, which `taskengine config check` examines",
			"handler", name, "types", typesOf(c, name), "error", failed[name])
	}
	if strict && len(all) > 0 {
		return fmt.Errorf("%w; node.strict_handlers wants every plugin to start", errors.Join(all...))
	}
	return nil
}

// firstStarts waits for the first start of each plugin, and returns the errors by handler.
func (s *handlerSet) firstStarts(ctx context.Context) map[string]error {
	var mu sync.Mutex
	failed := make(map[string]error) // guarded by mu
	var wg sync.WaitGroup
	for name, host := range s.hosts {
		wg.Go(func() {
			if err := host.Tried(ctx); err != nil {
				mu.Lock()
				defer mu.Unlock()
				failed[name] = err
			}
		})
	}
	wg.Wait()
	return failed
}

// pluginConfig returns the configuration of the plugin of a handler, which starts in turn with the
// others of the set.
func (s *handlerSet) pluginConfig(c *config.Config, name string, log *slog.Logger) plugins.Config {
	out := pluginConfig(c, name, log)
	out.Turns = s.turns
	return out
}

// typesOf returns the types of the tasks that a handler runs, sorted.
func typesOf(c *config.Config, handler string) []string {
	var types []string
	for _, typ := range slices.Sorted(maps.Keys(c.Types)) {
		name := c.Types[typ].Handler
		if _, share := c.Handlers[name].Split[handler]; share || name == handler {
			types = append(types, typ)
		}
	}
	return types
}
