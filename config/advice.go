package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/taskengine/taskengine/alert"
	"github.com/taskengine/taskengine/internal/suggest"
	"github.com/taskengine/taskengine/policy"
)

// Advice returns probable mistakes, with their places: handlers that no type uses, types that start tasks before the start
// is durable although their handler passes on a fencing token, types that try a task again without end and without a delay,
// and limits of the cluster that limit nothing; settings without an effect, such as a coordinator of a node with its tasks
// in memory; rules of alerts about subjects that do not exist; tokens that are sent without encryption; and private paths
// that no client may use.
func (c *Config) Advice() []Problem {
	a := adviser{config: c, tree: c.written()}
	a.idleHandlers()
	a.plainTokens()
	a.noBackups()
	a.fencing()
	a.restless()
	a.scopes()
	a.matches()
	a.alone()
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
		a.add("clients on other machines send their tokens without encryption, and an eavesdropper can use them; add api.tls, or write api.insecure: true if something else encrypts", "api", "tokens")
	}
}

// Distrusts reports whether a handler runs as a user of its own. Such a handler must not read what other users of the
// machine may read of the node.
func (c *Config) Distrusts() bool { return c.distrusted() != "" }

// distrusted returns the name of a handler that runs as a user of its own; "" if none does.
func (c *Config) distrusted() string {
	for _, name := range slices.Sorted(maps.Keys(c.Handlers)) {
		h := c.Handlers[name]
		if h.Exec != nil && h.Exec.User != "" || h.Plugin != nil && h.Plugin.User != "" {
			return name
		}
	}
	return ""
}

// noBackups reports that nothing can get a backup of a node while it runs.
func (a *adviser) noBackups() {
	name := a.config.distrusted()
	if name == "" || a.config.API.Tokens != "" || a.config.Admin.Token.Reveal() != "" {
		return
	}
	a.add("it has a user of its own, so other users of this machine are not trusted, and /backup and /debug/ of the admin listener answer no caller: set admin.token, or api.tokens with a token of the role admin", "handlers", name)
}

// fencing reports relaxed types that are handled by HTTP, where the server gets a version that may be
// the same for two runs, and relaxed types in stores without relaxed starts.
func (a *adviser) fencing() {
	for _, name := range slices.Sorted(maps.Keys(a.config.Types)) {
		t := a.config.Types[name]
		if driver := a.config.Storage.Driver; t.Relaxed && (driver == Bolt || driver == Postgres) {
			a.add("has no effect with this storage, where every start is durable before the task runs; remove it, or use pebble", "types", name, "relaxed")
			continue
		}
		if !t.Relaxed || !a.sends(t.Handler) {
			continue
		}
		a.add("when the node is killed, the same version of a task may run twice, so the header Taskengine-Version does not distinguish the two runs; remove relaxed if the server relies on it as a fencing token", "types", name, "relaxed")
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

// alone reports a coordinator of a node that has its tasks in memory, and so shares nothing.
func (a *adviser) alone() {
	c := a.config
	if c.Storage.Driver != Memory || !c.Coordination.IsExternal() {
		return
	}
	text := "has no effect with the storage memory: the node is alone, so limits of the cluster are its own"
	if len(c.Schedules) > 0 {
		text += ", and its schedules fire on it regardless of other nodes"
	}
	a.add(text+"; use pebble, bolt or postgres", "coordination", "driver")
}

// matches reports rules of alerts about types, limits and handlers that do not exist, and about limits that are never full.
func (a *adviser) matches() {
	for _, name := range slices.Sorted(maps.Keys(a.config.Alerts.Rules)) {
		r := a.config.Alerts.Rules[name]
		var names []string
		switch r.When.Label() {
		case "type":
			names = slices.Sorted(maps.Keys(a.config.Types))
		case "handler":
			names = slices.Sorted(maps.Keys(a.config.Handlers))
		case "limit":
			for _, limit := range slices.Sorted(maps.Keys(a.config.Limits)) {
				if l := a.config.Limits[limit]; l.Max > 0 || len(l.Overrides) > 0 {
					names = append(names, limit)
				}
			}
		default:
			continue
		}
		for _, pattern := range r.Match {
			named := pattern
			if r.When == alert.LimitFull {
				named, _, _ = strings.Cut(pattern, "/") // a value follows
			}
			if !slices.ContainsFunc(names, func(n string) bool { return alert.Matches(named, n) }) {
				a.add(a.unmatched(r.When.Label(), pattern, names), "alerts", "rules", name, "match")
			}
		}
	}
}

// unmatched says why a pattern matches nothing with a label.
func (a *adviser) unmatched(label, pattern string, names []string) string {
	if _, ok := a.config.Limits[pattern]; label == "limit" && ok {
		return fmt.Sprintf("the limit %q has no max, so it is never full; remove it", pattern)
	}
	text := fmt.Sprintf("there is no %s %q here", label, pattern)
	if len(names) > 0 {
		text += "; " + suggest.Advice(pattern, names)
	}
	return text
}
