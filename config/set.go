package config

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// override applies the --set arguments to the tree in their order and returns the new tree. An
// argument is a path, an equals sign and a value in YAML; a part of the path that contains a dot
// is in double quotes. The value replaces the present one. If items is true, a part may be the
// number of an item of a list, see graftItem.
func override(root *node, sets []string, items bool, found *findings) *node {
	for i, arg := range sets {
		path, value, ok := strings.Cut(arg, "=")
		src := &source{name: "--set " + path, order: i + 1, arg: arg, lead: len([]rune(path)) + 1}
		at := position{in: src}
		parts, err := splitPath(path)
		switch {
		case !ok:
			found.add(at, "has no value; write --set a.b=value")
			continue
		case err != nil:
			found.add(at, "%v; write --set a.b=value, and a part that contains a dot in double quotes", err)
			continue
		}
		src.text = value
		v := parse(src, found)
		if v == nil {
			v = &node{at: position{src, 1, 1}}
		}
		root = graft(root, parts, v, items, found)
	}
	return root
}

// graft returns a copy of n with the value at the path. It does not change nodes that n shares with
// other places through aliases.
func graft(n *node, path []string, value *node, items bool, found *findings) *node {
	if len(path) == 0 {
		return value
	}
	if items && n != nil && (n.kind == list || path[0] == "0" && n.find("0") == nil) {
		return graftItem(n, path, value, found)
	}
	at := position{in: value.at.in}
	fresh := &node{at: at, kind: mapping}
	if n != nil && n.kind != nothing {
		if n.kind != mapping {
			found.add(at, "%s cannot be set in %s; set the whole of it", name(path[0]), n.kind)
			return n
		}
		fresh.at = n.at
		fresh.entries = append(fresh.entries, n.entries...)
	}
	if e := fresh.find(path[0]); e != nil {
		if len(path) == 1 {
			e.at = at
		}
		e.value = graft(e.value, path[1:], value, items, found)
		return fresh
	}
	fresh.index = nil
	fresh.entries = append(fresh.entries, entry{path[0], at, graft(nil, path[1:], value, items, found)})
	return fresh
}

// graftItem is graft for a path that begins with the number of an item. A value that is no list
// is a list of one.
func graftItem(n *node, path []string, value *node, found *findings) *node {
	if n.kind != list {
		return graft(n, path[1:], value, true, found)
	}
	i, err := strconv.Atoi(path[0])
	if err != nil || i < 0 || i >= len(n.items) {
		found.add(position{in: value.at.in}, "there is no %s in a list of %d", name(path[0]), len(n.items))
		return n
	}
	fresh := *n
	fresh.items = slices.Clone(n.items)
	fresh.items[i] = graft(n.items[i], path[1:], value, true, found)
	return &fresh
}

// splitPath splits a.b."c.d" at its dots.
func splitPath(s string) ([]string, error) {
	var parts []string
	for {
		part, rest, more := "", "", false
		if quoted, isQuoted := strings.CutPrefix(s, `"`); isQuoted {
			end := strings.IndexByte(quoted, '"')
			if end < 0 {
				return nil, errors.New("has a double quote that is not closed")
			}
			part, rest = quoted[:end], quoted[end+1:]
			if rest, more = strings.CutPrefix(rest, "."); rest != "" && !more {
				return nil, fmt.Errorf("has %s after a double quote", name(rest))
			}
		} else {
			part, rest, more = strings.Cut(s, ".")
		}
		if part == "" {
			return nil, errors.New("has an empty part in its path")
		}
		parts = append(parts, part)
		if !more {
			return parts, nil
		}
		s = rest
	}
}

// joinPath is the inverse of splitPath.
func joinPath(parts []string) string {
	quoted := make([]string, len(parts))
	for i, part := range parts {
		if quoted[i] = name(part); strings.ContainsAny(part, ". \"") {
			quoted[i] = fmt.Sprintf("%.40q", part)
		}
	}
	return strings.Join(quoted, ".")
}

// name returns a key for a message: unchanged if it is a plain word, or else in quotes.
func name(key string) string {
	const longest = 40
	if key == "" || len(key) > longest || strings.ContainsFunc(key, func(r rune) bool {
		return r <= ' ' || r == '"' || r == ':' || r >= 0x7f
	}) {
		return fmt.Sprintf("%.40q", key)
	}
	return key
}
