package engine

import "github.com/taskengine/taskengine/engine/task"

// placed returns the handlers of the types that this node may run. It treats the others as types that
// it has no handler for, and does not announce them to the other nodes.
func placed(c *Config) map[string]task.Handler {
	handlers := make(map[string]task.Handler, len(c.Handlers))
	for typ, h := range c.Handlers {
		if c.mayRun(typ, c.Name, c.Labels) {
			handlers[typ] = h
		}
	}
	return handlers
}

// mayRun reports whether a node of this name, with these labels, may run the tasks of a type.
func (c *Config) mayRun(typ, name string, labels map[string]string) bool {
	return c.Policies.Types[typ].Nodes.Match(name, labels)
}
