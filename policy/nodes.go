package policy

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// NodeName is the key in [Nodes] of the name of a node. It is never that of a label.
const NodeName = "name"

// Nodes selects the nodes that may run the tasks of a type. A selected node has, for each key, one of
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

// String returns the selector for display: its keys in their order, and the values of each, such as
// "gpu=true, zone=eu|us". It returns "" if n selects all nodes.
func (n Nodes) String() string {
	parts := make([]string, 0, len(n))
	for _, key := range slices.Sorted(maps.Keys(n)) {
		parts = append(parts, key+"="+strings.Join(n[key], "|"))
	}
	return strings.Join(parts, ", ")
}

// Key returns a text that two selectors share exactly if they name the same keys and values.
func (n Nodes) Key() string {
	sorted := make(map[string][]string, len(n))
	for key, values := range n {
		sorted[key] = slices.Compact(slices.Sorted(slices.Values(values)))
	}
	text, err := json.Marshal(sorted)
	if err != nil {
		panic("policy: a map of texts is no JSON: " + err.Error())
	}
	return string(text)
}

// MaxPlaces is how many different selectors the Nodes of one limit may have.
const MaxPlaces = 100

// places checks which nodes a limit names for single values.
func (c *checker) places(name string, l Limit) {
	at := func(more ...string) []string { return append([]string{"limits", name}, more...) }
	if len(l.Nodes) > 0 && l.Per == "" {
		c.add("nodes need `per`: they are for particular values", at("nodes")...)
	}
	different := make(map[string]bool)
	for _, value := range slices.Sorted(maps.Keys(l.Nodes)) {
		if err := CheckPlaced(value); err != nil {
			c.add(err.Error(), at("nodes", value)...)
		}
		if len(l.Nodes[value]) == 0 {
			c.add("names no node; write a label and its value, or remove the key", at("nodes", value)...)
		}
		different[l.Nodes[value].Key()] = true
		c.nodes(l.Nodes[value], func(more ...string) []string {
			return at(append([]string{"nodes", value}, more[min(1, len(more)):]...)...)
		})
	}
	if len(different) > MaxPlaces {
		c.add(fmt.Sprintf("names %d different sets of nodes, of %d allowed; give nodes with a common property a common label", len(different), MaxPlaces), at("nodes")...)
	}
}

// CheckPlaced returns an error if a key of Limit.Nodes is invalid.
func CheckPlaced(key string) error {
	if key == "*" {
		return errors.New("stands for every value; write the nodes of the type instead")
	}
	return CheckOverride(key)
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
