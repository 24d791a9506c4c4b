package node

import (
	"log/slog"
	"maps"
	"slices"

	"github.com/taskengine/taskengine/config"
)

// placed returns the configuration without the handlers that have only types that this node may not run, so
// that their processes are not started. A handler without types stays. c is not changed.
func placed(c *config.Config, name string, log *slog.Logger) *config.Config {
	here := *c
	here.Handlers = maps.Clone(c.Handlers)
	for _, handler := range slices.Sorted(maps.Keys(c.Handlers)) {
		types := typesOf(c, handler)
		if len(types) == 0 || slices.ContainsFunc(types, func(typ string) bool { return c.Types[typ].Nodes.Match(name, c.Coordination.Labels) }) {
			continue
		}
		delete(here.Handlers, handler)
		log.Info("the handler is not started: this node does not match the nodes of its types", "handler", handler, "types", types)
	}
	return &here
}
