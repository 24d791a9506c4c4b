package engine

import (
	"fmt"
	"maps"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/taskengine/taskengine/engine/internal/core"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/task"
)

// placement says which nodes may run the tasks of single values of one type, see policy.Limit.Nodes. It is
// read only.
type placement struct {
	limit     policy.Limit
	at, count int                       // the index of the value in a group, and the number of values there
	places    map[string]core.Placement // by the keys of the Nodes of the limit
}

// placements returns the placements of the types that have some, by type.
func placements(c *Config, layouts map[string][]string) map[string]*placement {
	all := make(map[string]*placement)
	for name, p := range c.Policies.Types {
		l, ok := c.Policies.PlacedBy(p)
		if !ok {
			continue
		}
		layout := layouts[name]
		one := &placement{limit: l, at: slices.Index(layout, l.Per), count: len(layout), places: make(map[string]core.Placement)}
		for key, nodes := range l.Nodes {
			one.places[key] = core.Placement{Nodes: nodes.Key(), Elsewhere: !nodes.Match(c.Name, c.Labels)}
		}
		all[name] = one
	}
	return all
}

// keyOf returns the key of the nodes of the limit that holds for a queue, and the value of the queue.
func (p *placement) keyOf(q task.Queue) (key, value string, ok bool) {
	value = task.GroupValues(q.Group, p.count)[p.at]
	key, ok = p.limit.PlaceOf(value)
	return key, value, ok
}

// placementOf returns the placement of a queue.
func (c *catalog) placementOf(q task.Queue) core.Placement {
	p := c.placements[q.Type]
	if p == nil {
		return core.Placement{}
	}
	if key, _, ok := p.keyOf(q); ok {
		return p.places[key]
	}
	return core.Placement{}
}

// placesOf returns, by type, the keys of the selectors of single values, and the keys that this node matches.
func placesOf(c *Config) (places map[string][]string, matched []string) {
	places = make(map[string][]string)
	for name, p := range c.Policies.Types {
		l, _ := c.Policies.PlacedBy(p)
		for _, nodes := range l.Nodes {
			places[name] = append(places[name], nodes.Key())
			if nodes.Match(c.Name, c.Labels) {
				matched = append(matched, nodes.Key())
			}
		}
		if len(places[name]) > 0 {
			places[name] = slices.Compact(slices.Sorted(slices.Values(places[name])))
		}
	}
	return places, slices.Compact(slices.Sorted(slices.Values(matched)))
}

// nodesOfValue returns which nodes may run the tasks of a queue if that depends on a value, with the limit
// and the value.
func (c *catalog) nodesOfValue(q task.Queue) (nodes policy.Nodes, limit, value string) {
	p := c.placements[q.Type]
	if p == nil {
		return nil, "", ""
	}
	key, value, ok := p.keyOf(q)
	if !ok {
		return nil, "", ""
	}
	return p.limit.Nodes[key], p.limit.Name, value
}

// wantedFor describes the nodes that may run the tasks of a queue, if that depends on a value: "zone=eu
// (limit partner, value acme)". It returns "" if it does not.
func (c *catalog) wantedFor(q task.Queue) string {
	nodes, limit, value := c.nodesOfValue(q)
	if nodes == nil {
		return ""
	}
	return fmt.Sprintf("%s (limit %s, value %.80q)", nodes, limit, value)
}

// maxValuesShown is the largest number of values in TypeStatus.Values.
const maxValuesShown = 10

// valuesOf returns TypeStatus.Values of a type.
func (e *Engine) valuesOf(typ string) (values []string) {
	p := e.catalog.placements[typ]
	if p == nil {
		return nil
	}
	keys := slices.Sorted(maps.Keys(p.places))
	for _, key := range keys[:min(len(keys), maxValuesShown)] {
		by := "no live node"
		if names := e.cluster.RunByPlace(typ, p.places[key].Nodes); len(names) > 0 {
			by = strings.Join(names, ", ")
		}
		values = append(values, fmt.Sprintf("%s %s: %s (%s)", p.limit.Name, key, p.limit.Nodes[key], by))
	}
	if more := len(keys) - maxValuesShown; more > 0 {
		values = append(values, fmt.Sprintf("and %d more", more))
	}
	return values
}

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

// nodesOf describes the nodes that may run a type; "" is all.
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
