package config

import (
	"fmt"
	"maps"
	"slices"

	"github.com/taskengine/taskengine/engine/policy"
)

// Advice returns what is allowed but probably a mistake, with its place: handlers that no type
// uses, types that start tasks before the start is durable although their handler passes on a
// fencing token, types that try a task again without end and without a delay, and limits of the
// cluster that limit nothing; and tokens that are sent without encryption.
func (c *Config) Advice() []Problem {
	a := adviser{config: c, tree: c.written()}
	a.idleHandlers()
	a.plainTokens()
	a.fencing()
	a.restless()
	a.scopes()
	return a.found.problems()
}

// adviser collects advice. It is used by one goroutine.
type adviser struct {
	config *Config
	tree   *node
	found  findings
}

func (a *adviser) add(text string, path ...string) {
	at := a.tree.locate(path)
	if e := a.tree.findPath(path); e != nil {
		at = e.at
	}
	a.found.add(at, "%s: %s", joinPath(path), text)
}

// findPath returns the entry of the key that a path ends with; nil if there is none.
func (n *node) findPath(path []string) (e *entry) {
	for _, key := range path {
		if e = n.find(key); e == nil {
			return nil
		}
		n = e.value
	}
	return e
}

// idleHandlers reports handlers that no type names.
func (a *adviser) idleHandlers() {
	used := make(map[string]bool)
	for _, t := range a.config.Types {
		used[t.Handler] = true
		for other := range a.config.Handlers[t.Handler].Split {
			used[other] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(a.config.Handlers)) {
		if !used[name] {
			a.add(fmt.Sprintf("no type has this handler, so it runs nothing; add it to types, such as types: {%s: {handler: %[1]s}}", name), "handlers", name)
		}
	}
}

// plainTokens reports tokens that are sent through a network without encryption.
func (a *adviser) plainTokens() {
	if api := a.config.API; api.Tokens != "" && api.TLS.Cert == "" && api.Listen != "" && !isOwnHost(api.Listen) && !api.Insecure {
		a.add("clients on other machines send their tokens without encryption, and who reads one can use it; add api.tls, or write api.insecure: true if something else encrypts", "api", "tokens")
	}
}

// fencing reports relaxed types that are handled by HTTP: the server gets a version that may be
// the same for two runs.
func (a *adviser) fencing() {
	for _, name := range slices.Sorted(maps.Keys(a.config.Types)) {
		t := a.config.Types[name]
		if !t.Relaxed || !a.sends(t.Handler) {
			continue
		}
		a.add("when the node is killed, the same version of a task may run twice, so the header Taskengine-Version does not tell the two runs apart; remove relaxed if the server relies on it as a fencing token", "types", name, "relaxed")
	}
}

// restless reports types that try a failing task again at once, without end.
func (a *adviser) restless() {
	for _, name := range slices.Sorted(maps.Keys(a.config.Types)) {
		if r := a.config.Types[name].Retry; r.Max == policy.Forever && r.Backoff.Kind == policy.None {
			a.add("a task that always fails is tried again at once, without end, and takes a slot and commits all the time; give it a backoff, such as {fixed: [1m]}", "types", name, "retry", "backoff")
		}
	}
}

// sends reports whether a handler makes HTTP requests.
func (a *adviser) sends(name string) bool {
	h := a.config.Handlers[name]
	if h.HTTP != nil {
		return true
	}
	for other := range h.Split {
		if a.config.Handlers[other].HTTP != nil {
			return true
		}
	}
	return false
}

// scopes reports limits of the cluster that have nothing to count.
func (a *adviser) scopes() {
	for _, name := range slices.Sorted(maps.Keys(a.config.Limits)) {
		l := a.config.Limits[name]
		if l.Cluster && l.Max == 0 && l.Rate.IsZero() && len(l.Overrides) == 0 {
			a.add("has neither max nor rate, so it limits nothing, on a node or in the cluster; add one of them, or remove scope", "limits", name, "scope")
		}
	}
}
