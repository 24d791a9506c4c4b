package policy

import (
	"maps"
	"slices"
	"strconv"
	"strings"
)

// NodeName is the key in [Nodes] of the name of a node. It is never that of a label.
const NodeName = "name"

// Nodes says which nodes may run the tasks of a type: those that have, for each of its keys, one of
// the values. A key is a label, or [NodeName]. No keys select all nodes.
type Nodes map[string][]string

// Match reports whether a node of this name, with these labels, may run the tasks.
func (n Nodes) Match(name string, labels map[string]string) bool {
	for key, values := range n {
		value, ok := labels[key]
		if key == NodeName {
			value, ok = name, true
		}
		if !ok || !slices.Contains(values, value) {
			return false
		}
	}
	return true
}

// String returns the selector for people: its keys in their order, and the values of each, such as
// "gpu=true, zone=eu|us". It returns "" if n selects all nodes.
func (n Nodes) String() string {
	parts := make([]string, 0, len(n))
	for _, key := range slices.Sorted(maps.Keys(n)) {
		parts = append(parts, key+"="+strings.Join(n[key], "|"))
	}
	return strings.Join(parts, ", ")
}

// nodes checks the selector of a type.
func (c *checker) nodes(n Nodes, at func(...string) []string) {
	for _, key := range slices.Sorted(maps.Keys(n)) {
		switch values := n[key]; {
		case key == "":
			c.add("a label needs a name", at("nodes")...)
		case len(values) == 0:
			c.add("names no value, so that no node may run the type; write at least one, or remove the key", at("nodes", key)...)
		case slices.Contains(values, ""):
			c.add("is empty; write the value of a label", at("nodes", key, strconv.Itoa(slices.Index(values, "")))...)
		}
	}
}
