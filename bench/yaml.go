package bench

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/taskengine/taskengine/config"
)

// reader reads a scenario and collects what is wrong with it, so that all of it is told
// at once.
type reader struct {
	source   *config.Source
	path     []string              // of the value being read
	sets     map[*yaml.Node]string // values that come from a set, and which
	problems []config.Problem
}

// Parse reads a scenario; name is that of the file, for messages. Sets replace values:
// "load.rate=2000/s", "tasks.0.payload=4KiB". The error is a *[config.Errors] that tells
// everything that is wrong, where, and what to do.
func Parse(name string, data []byte, sets ...string) (*Scenario, error) {
	r := &reader{source: config.NewSource(name, string(data)), sets: map[*yaml.Node]string{}}
	s := &Scenario{}
	if len(data) > maxFile {
		r.add(config.Problem{File: name, Text: "is larger than 1 MiB; put less into one scenario"})
		return nil, r.err()
	}
	root := r.parse()
	for _, set := range sets {
		root = r.override(root, set)
	}
	if len(r.problems) > 0 {
		return nil, r.err() // what is not YAML has nothing more to say
	}
	r.scenario(root, s)
	if err := r.err(); err != nil {
		return nil, err
	}
	return s, nil
}

// parse returns the document of the text, an empty one if there is none.
func (r *reader) parse() *yaml.Node {
	root := r.source.Document(func(line, column int, text string) { r.add(r.source.Problem(line, column, text)) })
	if root == nil {
		return &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map", Line: 1, Column: 1}
	}
	return root
}

// override replaces a value as a set such as "load.rate=5/s" says.
func (r *reader) override(root *yaml.Node, set string) *yaml.Node {
	bad := func(format string, args ...any) *yaml.Node {
		r.add(config.Problem{File: "--set " + set, Text: fmt.Sprintf(format, args...)})
		return root
	}
	at, value, ok := strings.Cut(set, "=")
	if !ok || at == "" {
		return bad("is no set; write key=value, such as load.rate=2000/s")
	}
	var doc yaml.Node
	if err := yaml.Load([]byte(value), &doc); err != nil || len(doc.Content) != 1 {
		return bad("the value is not YAML; write it in quotes")
	}
	leaf := doc.Content[0]
	r.mark(leaf, "--set "+set)
	n := root
	steps := strings.Split(at, ".")
	for i, step := range steps {
		last := i == len(steps)-1
		child, replace := r.child(n, step, "--set "+set)
		switch {
		case replace == nil:
			return bad("there is no %s; see docs/benchmarks.md for the keys", strings.Join(steps[:i+1], "."))
		case last:
			replace(leaf)
		case child == nil:
			made := &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}
			r.sets[made] = "--set " + set
			replace(made)
			n = made
		default:
			n = child
		}
	}
	return root
}

// child returns the value under a key or index, nil if there is none, and what puts
// another there, nil if none can be.
func (r *reader) child(n *yaml.Node, step, set string) (*yaml.Node, func(*yaml.Node)) {
	switch n.Kind {
	case yaml.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			if n.Content[i].Value == step {
				return n.Content[i+1], func(v *yaml.Node) { n.Content[i+1] = v }
			}
		}
		if step == "0" { // a single value is a list of one
			return n, func(v *yaml.Node) { *n = *v }
		}
		return nil, func(v *yaml.Node) {
			name := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: step}
			r.sets[name] = set
			n.Content = append(n.Content, name, v)
		}
	case yaml.SequenceNode:
		if i, err := strconv.Atoi(step); err == nil && i >= 0 && i < len(n.Content) {
			return n.Content[i], func(v *yaml.Node) { n.Content[i] = v }
		}
	}
	return nil, nil
}

// mark notes that a value and all within it come from a set.
func (r *reader) mark(n *yaml.Node, set string) {
	r.sets[n] = set
	for _, c := range n.Content {
		r.mark(c, set)
	}
}

const maxProblems = 100

func (r *reader) add(p config.Problem) {
	if len(r.problems) < maxProblems {
		r.problems = append(r.problems, p)
	}
}

// fault notes what is wrong at a place.
func (r *reader) fault(n *yaml.Node, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if len(r.path) > 0 {
		text = strings.Join(r.path, ".") + ": " + text
	}
	if set, ok := r.sets[n]; ok {
		r.add(config.Problem{File: set, Text: text})
		return
	}
	r.add(r.source.Problem(n.Line, n.Column, text))
}

func (r *reader) err() error {
	if len(r.problems) == 0 {
		return nil
	}
	slices.SortStableFunc(r.problems, func(a, b config.Problem) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	return &config.Errors{Problems: r.problems}
}

// key is one that a mapping may have.
type key struct {
	name string
	read func(*yaml.Node)
}

// mapping reads the keys of a mapping and returns those that are there.
func (r *reader) mapping(n *yaml.Node, keys ...key) map[string]*yaml.Node {
	n = follow(n)
	there := make(map[string]*yaml.Node)
	if n.Kind != yaml.MappingNode {
		r.fault(n, "is no mapping; write keys such as %s", keys[0].name)
		return there
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		name, value := follow(n.Content[i]), follow(n.Content[i+1])
		at := slices.IndexFunc(keys, func(k key) bool { return k.name == name.Value })
		switch {
		case at < 0:
			names := make([]string, len(keys))
			for i, k := range keys {
				names[i] = k.name
			}
			r.fault(name, "%.40q is no key here; %s", name.Value, config.DidYouMean(name.Value, names))
		case there[name.Value] != nil:
			r.fault(name, "%s is here a second time; keep one of them", name.Value)
		case value.Kind == yaml.ScalarNode && value.ShortTag() == "!!null":
			r.fault(name, "%s has no value; write one, or remove the key", name.Value)
			there[name.Value] = value
		default:
			there[name.Value] = value
			r.path = append(r.path, name.Value)
			keys[at].read(value)
			r.path = r.path[:len(r.path)-1]
		}
	}
	return there
}

// list reads the items of a list; a single value is a list of one.
func (r *reader) list(n *yaml.Node, read func(i int, n *yaml.Node)) {
	if n.Kind != yaml.SequenceNode {
		read(0, n)
		return
	}
	for i, item := range n.Content {
		r.path = append(r.path, strconv.Itoa(i))
		read(i, follow(item))
		r.path = r.path[:len(r.path)-1]
	}
}

func follow(n *yaml.Node) *yaml.Node {
	for n.Kind == yaml.AliasNode && n.Alias != nil {
		n = n.Alias
	}
	return n
}
