package config

import (
	"maps"
	"reflect"

	"github.com/taskengine/taskengine/policy"
)

// Adopt returns the configuration that is in force on a node after it has read the file again: c with the parts of to that a node takes over while it
// runs. c is that of the start, or the result of the last Adopt. Of the parts that take a restart the result has the values of c.
func (c *Config) Adopt(to *Config) *Config {
	out := *c
	out.Retention, out.Schedules = to.Retention, to.Schedules
	if c.adoptsAlerts(to) {
		out.Alerts = to.Alerts
	}
	adopted := c.policies().Adopt(to.policies())
	out.Limits = adopted.Limits
	out.Types = make(map[string]Type, len(c.Types))
	for name, t := range c.Types {
		if next, ok := to.Types[name]; ok {
			t.Redact = next.Redact
			if c.isFree(t.Handler) && to.isFree(next.Handler) {
				t.Handler = next.Handler
			}
		}
		t.Type = adopted.Types[name]
		out.Types[name] = t
	}
	out.Handlers = maps.Clone(c.Handlers)
	for name := range c.Handlers {
		if _, ok := to.Handlers[name]; !ok && c.isFree(name) && !out.isUsed(name) {
			delete(out.Handlers, name)
		}
	}
	for name, h := range to.Handlers {
		if was, ok := c.Handlers[name]; to.isFree(name) && (!ok || c.isFree(name)) || was.Plugin != nil && h.Plugin != nil {
			out.Handlers[name] = h
		}
	}
	return &out
}

func (c *Config) adoptsAlerts(to *Config) bool {
	return len(c.Alerts.Targets) > 0 && len(to.Alerts.Targets) > 0
}

// isFree reports whether a handler can be replaced while a node runs: it has no slots and no processes that stay.
func (c *Config) isFree(handler string) bool {
	h := c.Handlers[handler]
	if h.Exec == nil && h.HTTP == nil {
		return false
	}
	for _, other := range c.Handlers {
		if _, shares := other.Split[handler]; shares {
			return false
		}
	}
	return true
}

// isUsed reports whether a type has a handler.
func (c *Config) isUsed(handler string) bool {
	for _, t := range c.Types {
		if t.Handler == handler {
			return true
		}
	}
	return false
}

// adopts reports whether a node that runs with the configuration before takes over a change of a key. path is the key, and adopted the result
// of before.Adopt(after).
func adopts(path []string, before, after, adopted *Config) bool {
	switch path[0] {
	case "schedules", "retention":
		return true
	case "alerts":
		return before.adoptsAlerts(after)
	}
	if len(path) < 2 {
		return false
	}
	switch name := path[1]; path[0] {
	case "handlers":
		return reflect.DeepEqual(adopted.Handlers[name], after.Handlers[name])
	case "limits":
		if _, ok := before.Limits[name]; !ok || len(path) < 3 {
			return false
		}
		get, ok := limitValues[path[2]]
		return ok && reflect.DeepEqual(get(adopted.Limits[name]), get(after.Limits[name]))
	case "types":
		was, ok := before.Types[name]
		now, stays := after.Types[name]
		if !ok || !stays || len(path) < 3 {
			return false
		}
		switch path[2] {
		case "redact":
			return true
		case "handler":
			return before.isFree(was.Handler) && after.isFree(now.Handler)
		}
		get, ok := typeValues[path[2]]
		return ok && reflect.DeepEqual(get(adopted.Types[name].Type), get(now.Type))
	}
	return false
}

// typeValues has the keys of types that [policy.Type.Adopt] takes over, some of them not always.
var typeValues = map[string]func(policy.Type) any{
	"priority":     func(t policy.Type) any { return t.Priority },
	"concurrency":  func(t policy.Type) any { return t.Concurrency },
	"max_backlog":  func(t policy.Type) any { return t.MaxBacklog },
	"max_crashes":  func(t policy.Type) any { return t.MaxCrashes },
	"max_lateness": func(t policy.Type) any { return t.MaxLateness },
	"timeout":      func(t policy.Type) any { return t.Timeout },
	"retry":        func(t policy.Type) any { return t.Retry },
	"retention":    func(t policy.Type) any { return t.Retention },
	"ordering":     func(t policy.Type) any { return t.Ordering },
	"unique":       func(t policy.Type) any { return t.Unique },
}

// limitValues has the keys of limits that [policy.Limit.Adopt] takes over.
var limitValues = map[string]func(policy.Limit) any{
	"max":       func(l policy.Limit) any { return l.Max },
	"rate":      func(l policy.Limit) any { return l.Rate },
	"overrides": func(l policy.Limit) any { return l.Overrides },
	"shares":    func(l policy.Limit) any { return l.Shares },
}
