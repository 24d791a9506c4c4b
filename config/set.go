package config

import (
	"errors"
	"fmt"
	"strings"
)

// override applies the --set arguments to the tree in their order and returns the new
// tree. An argument is a path, an equals sign and a value in YAML; a part of the path
// that contains a dot stands in double quotes. The value replaces what was there.
func override(root *node, sets []string, found *findings) *node {
	for i, arg := range sets {
		path, value, ok := strings.Cut(arg, "=")
		src := &Source{name: "--set " + path, order: i + 1, arg: arg, lead: len([]rune(path)) + 1}
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
		root = graft(root, parts, v, found)
	}
	return root
}

// graft returns a copy of n in which the value stands at the path. What n shares with
// other places through aliases is left alone.
func graft(n *node, path []string, value *node, found *findings) *node {
	if len(path) == 0 {
		return value
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
		e.value = graft(e.value, path[1:], value, found)
		return fresh
	}
	fresh.index = nil
	fresh.entries = append(fresh.entries, entry{path[0], at, graft(nil, path[1:], value, found)})
	return fresh
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

// name shows a key in a message: as it is if it is a plain word, or else in quotes.
func name(key string) string {
	const longest = 40
	if key == "" || len(key) > longest || strings.ContainsFunc(key, func(r rune) bool {
		return r <= ' ' || r == '"' || r == ':' || r >= 0x7f
	}) {
		return fmt.Sprintf("%.40q", key)
	}
	return key
}
