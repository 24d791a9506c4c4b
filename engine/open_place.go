package engine

import (
	"fmt"
	"runtime/debug"

	"github.com/taskengine/taskengine/task"
)

// placed returns the handlers of the types that this node may run. It treats the others as types that
// it has no handler for, and does not announce them to the other nodes.
func placed(c *Config) (map[string]task.Handler, error) {
	handlers := make(map[string]task.Handler, len(c.Handlers))
	for typ, h := range c.Handlers {
		may, err := c.asksMayRun(typ, c.Name, c.Labels)
		if err != nil {
			return nil, fmt.Errorf("engine: Config.MayRun, asked about type %s: %w", typ, err)
		}
		if may {
			handlers[typ] = h
		}
	}
	return handlers, nil
}

// mayRun reports whether a node of this name, with these labels, may run the tasks of a type.
func (c *Config) mayRun(typ, name string, labels map[string]string) bool {
	may, err := c.asksMayRun(typ, name, labels)
	return may && err == nil
}

func (c *Config) asksMayRun(typ, name string, labels map[string]string) (may bool, err error) {
	if !c.Policies.Types[typ].Nodes.Match(name, labels) {
		return false, nil
	}
	if c.MayRun == nil {
		return true, nil
	}
	defer func() {
		if r := recover(); r != nil {
			may, err = false, fmt.Errorf("panic: %v\n%s", r, debug.Stack())
		}
	}()
	return c.MayRun(typ, name, labels), nil
}

// nodesOf describes for people which nodes may run a type; "" is all.
func (c *Config) nodesOf(typ string) string {
	text := c.Policies.Types[typ].Nodes.String()
	switch {
	case c.MayRun == nil:
	case text != "":
		text += ", and Config.MayRun"
	case !c.mayRun(typ, c.Name, c.Labels):
		text = "Config.MayRun"
	}
	return text
}
