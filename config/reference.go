package config

import (
	"fmt"
	"strings"
	"sync"
)

// Reference returns the description of every key, in Markdown.
func Reference() []byte {
	var b strings.Builder
	for _, s := range sections() {
		fmt.Fprintf(&b, "### %s\n\n%s\n\n", s.title(), s.doc)
		b.WriteString("| Key | Value | Default | Meaning |\n|---|---|---|---|\n")
		for _, f := range s.is.fields {
			fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", f.name, cell(f.is.words()), f.defaultCell(), cell(f.doc))
		}
		b.WriteByte('\n')
	}
	return []byte(b.String())
}

func (f field) defaultCell() string {
	switch {
	case f.required:
		return "required"
	case f.def != "":
		return "`" + f.def + "`"
	}
	return cell(f.otherwise)
}

func cell(s string) string { return strings.ReplaceAll(s, "|", `\|`) }

// section is one object of the file and its place.
type section struct {
	path []string
	doc  string
	is   *object
}

func (s section) title() string {
	if len(s.path) == 0 {
		return "The file"
	}
	title := "`" + strings.Join(s.path, ".") + "`"
	if strings.HasPrefix(s.is.what, "a handler with ") {
		title += ": " + s.is.what
	}
	return title
}

// sections lists every object of the file in the order of the table.
func sections() []section {
	var all []section
	var walk func(path []string, doc string, s shape)
	walk = func(path []string, doc string, s shape) {
		o, isObject := s.(*object)
		if isObject {
			all = append(all, section{path, doc, o})
			for _, f := range o.fields {
				walk(append(path[:len(path):len(path)], f.name), f.doc, f.is)
			}
			return
		}
		if holder, ok := s.(interface{ holds() (string, []shape) }); ok {
			key, inner := holder.holds()
			if key != "" {
				path = append(path[:len(path):len(path)], key)
			}
			for _, s := range inner {
				walk(path, doc, s)
			}
		}
	}
	walk(nil, "The top level.", root)
	return all
}

func (t table[V]) holds() (key string, inner []shape) { return t.likely, []shape{t.is} }
func (s short) holds() (key string, inner []shape)    { return "", []shape{s.object} }

func (vs variants) holds() (key string, inner []shape) {
	for _, v := range vs {
		inner = append(inner, v.is)
	}
	return "", inner
}

// homes returns the place of each key that has exactly one.
var homes = sync.OnceValue(func() map[string]string {
	found, often := map[string]string{}, map[string]bool{}
	for _, s := range sections() {
		for _, f := range s.is.fields {
			if _, again := found[f.name]; again || len(s.path) == 0 {
				often[f.name] = true
			}
			found[f.name] = strings.Join(s.path, ".")
		}
	}
	for name := range often {
		delete(found, name)
	}
	return found
})
