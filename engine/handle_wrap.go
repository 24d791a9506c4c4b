package engine

import (
	"fmt"

	"github.com/taskengine/taskengine/task"
)

// wrapped returns the handlers by type, each wrapped by Config.Wrap if that is set.
func wrapped(c *Config) (map[string]task.Handler, error) {
	if c.Wrap == nil {
		return c.Handlers, nil
	}
	calls := make(map[string]task.Handler, len(c.Handlers))
	for typ, h := range c.Handlers {
		if typ == relayType {
			calls[typ] = h
			continue
		}
		if calls[typ] = c.Wrap(typ, h); calls[typ] == nil {
			return nil, fmt.Errorf("engine: Config.Wrap returns nil for type %s", typ)
		}
	}
	return calls, nil
}
