package config

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// String returns the effective configuration as YAML: the values of the file and of --set, in the
// order of the reference, and the defaults of all other keys, marked as such. References are not
// resolved, so the secrets that they stand for are not shown. Secrets that are written out are
// masked, see [masked]. Apart from masked values, reading the YAML from the folder of the file
// gives the same configuration.
func (c *Config) String() string { return c.dump(false) }

// dump is String, with the secrets that are written out if reveals is set.
func (c *Config) dump(reveals bool) string {
	tree := c.tree
	if tree == nil {
		tree = &node{}
	}
	b := &dump{of: c, reveals: reveals}
	dumpObject(b, root, tree, 0)
	return b.String()
}

// dump writes a configuration.
type dump struct {
	strings.Builder
	of      *Config
	reveals bool // secrets are not masked
}

func dumpObject(b *dump, o *object, n *node, depth int) {
	for _, f := range o.fields {
		var given *node
		if e := n.find(f.name); e != nil {
			given = e.value
		}
		switch {
		case given != nil && given.kind != nothing:
			dumpValue(b, f.name, f.is, given, depth)
		case f.def != "" && (f.holds == nil || f.holds(b.of)):
			fmt.Fprintf(b, "%s%s: %s # default\n", indent(depth), f.name, f.def)
		default:
			if inner, ok := f.is.(*object); ok && hasDefaults(inner) && o.rivalsOf(f.name) < 0 {
				dumpValue(b, f.name, inner, &node{}, depth)
			}
		}
	}
}

// hasDefaults reports whether a missing object has defaults to show.
func hasDefaults(o *object) bool {
	return !slices.ContainsFunc(o.fields, func(f field) bool { return f.required }) &&
		slices.ContainsFunc(o.fields, func(f field) bool {
			inner, ok := f.is.(*object)
			return f.def != "" || ok && hasDefaults(inner)
		})
}

func dumpValue(b *dump, key string, s shape, n *node, depth int) {
	switch s := s.(type) {
	case *object:
		dumpNested(b, key, depth, func(b *dump) { dumpObject(b, s, n, depth+1) })
		return
	case databaseURL:
		if hidden := hidePasswords(n.text); hidden != n.text && !b.reveals {
			fmt.Fprintf(b, "%s%s: %q # its password is not shown\n", indent(depth), key, hidden)
			return
		}
	case guarded:
		if hidden := s.hide(key, n.text); hidden != n.text && !isReference(n.text) && !b.reveals {
			fmt.Fprintf(b, "%s%s: %q # secrets are not shown\n", indent(depth), key, hidden)
			return
		}
	case short:
		if n.kind == mapping {
			dumpValue(b, key, s.object, n, depth)
			return
		}
	case variants:
		for _, v := range s {
			if n.find(v.key) != nil {
				dumpValue(b, key, v.is, n, depth)
				return
			}
		}
	case interface{ holds() (string, []shape) }:
		_, inner := s.holds()
		dumpNested(b, key, depth, func(b *dump) {
			for _, e := range slices.SortedFunc(slices.Values(n.entries), byKey) {
				dumpValue(b, showKey(e.key), inner[0], e.value, depth+1)
			}
		})
		return
	}
	fmt.Fprintf(b, "%s%s: %s\n", indent(depth), key, flow(n))
}

// dumpNested writes a key and below it the output of body, or {} if that is empty.
func dumpNested(b *dump, key string, depth int, body func(b *dump)) {
	under := &dump{of: b.of, reveals: b.reveals}
	body(under)
	if under.Len() == 0 {
		fmt.Fprintf(b, "%s%s: {}\n", indent(depth), key)
		return
	}
	fmt.Fprintf(b, "%s%s:\n%s", indent(depth), key, under.String())
}

func byKey(a, b entry) int { return strings.Compare(a.key, b.key) }

func indent(depth int) string { return strings.Repeat("  ", depth) }

// flow writes a value in one line.
func flow(n *node) string {
	switch n.kind {
	case scalar:
		if n.quoted || n.tag == "!!str" {
			return showText(n)
		}
		return n.text
	case list:
		items := make([]string, len(n.items))
		for i, item := range n.items {
			items[i] = flow(item)
		}
		return "[" + strings.Join(items, ", ") + "]"
	case mapping:
		fields := make([]string, len(n.entries))
		for i, e := range n.entries {
			fields[i] = showKey(e.key) + ": " + flow(e.value)
		}
		return "{" + strings.Join(fields, ", ") + "}"
	}
	return "null"
}

// showKey writes a key. All keys are text, so only unusual ones need quotes.
func showKey(key string) string {
	if isName(key) == nil {
		return key
	}
	return strconv.Quote(key)
}

// plain matches texts that need no quotes.
var plain = regexp.MustCompile(`^[A-Za-z0-9_./]([A-Za-z0-9_./:%+-]*[A-Za-z0-9_/])?$`)

func showText(n *node) string {
	if hidden := hidePasswords(n.text); hidden != n.text {
		return strconv.Quote(hidden)
	}
	if !n.quoted && plain.MatchString(n.text) {
		return n.text
	}
	return strconv.Quote(n.text)
}
