package config

import "go.yaml.in/yaml/v4"

// nodeKind is the kind of a value of the file.
type nodeKind uint8

const (
	nothing nodeKind = iota // no value, ~ or null
	scalar
	list
	mapping
)

func (k nodeKind) String() string {
	return [...]string{"nothing", "a single value", "a list", "a mapping"}[k]
}

// node is a value of the file. It is immutable, and may be in several places because of aliases.
type node struct {
	at      position
	kind    nodeKind
	text    string // of a scalar
	quoted  bool   // the scalar was written in quotes or as a block: it is text and no number
	tag     string // the type that YAML gives the scalar, such as !!int
	items   []*node
	entries []entry
	index   map[string]int // of a mapping with many entries: where each key is in entries
}

// entry is one key of a mapping.
type entry struct {
	key   string
	at    position
	value *node
}

// find returns the entry of a key, or nil.
func (n *node) find(key string) *entry {
	if n == nil || n.kind != mapping {
		return nil
	}
	if n.index != nil {
		if i, ok := n.index[key]; ok {
			return &n.entries[i]
		}
		return nil
	}
	for i := range n.entries {
		if n.entries[i].key == key {
			return &n.entries[i]
		}
	}
	return nil
}

// reindex makes find fast, once the entries are complete.
func (n *node) reindex() {
	const few = 32
	if len(n.entries) <= few {
		return
	}
	n.index = make(map[string]int, len(n.entries))
	for i, e := range n.entries {
		n.index[e.key] = i
	}
}

// maxMerged is how many keys all merges of one text may copy.
const maxMerged = 200_000

// parser makes a tree of one text.
type parser struct {
	in     *source
	found  *findings
	done   map[*yaml.Node]*node // of anchors; nil while the node is being made
	merged int
}

// parse returns the one document of the source; nil if it is empty or not YAML.
func parse(in *source, found *findings) *node {
	top := in.document(func(line, column int, text string) { found.add(position{in, line, column}, "%s", text) })
	if top == nil {
		return nil
	}
	p := &parser{in: in, found: found, done: map[*yaml.Node]*node{}}
	return p.node(top)
}

func (p *parser) place(n *yaml.Node) position { return position{p.in, n.Line, n.Column} }

// node converts a node of the YAML library. Aliases share their node.
func (p *parser) node(y *yaml.Node) *node {
	if y.Kind == yaml.AliasNode {
		made, known := p.done[y.Alias]
		if !known || made == nil {
			p.found.add(p.place(y), "*%s stands for something that contains it; use aliases for values further up only", y.Value)
			return &node{at: p.place(y)}
		}
		return made
	}
	if y.Anchor != "" {
		p.done[y] = nil
	}
	n := &node{at: p.place(y)}
	if y.Style&yaml.TaggedStyle != 0 {
		p.found.add(n.at, "the tag %s is not supported; remove it, and write text in quotes", y.ShortTag())
	}
	switch y.Kind {
	case yaml.ScalarNode:
		const quotes = yaml.DoubleQuotedStyle | yaml.SingleQuotedStyle | yaml.LiteralStyle | yaml.FoldedStyle
		n.text, n.quoted, n.tag = y.Value, y.Style&quotes != 0, y.ShortTag()
		if y.Style&yaml.TaggedStyle != 0 {
			n.tag = "!!str" // the tag is reported already
		}
		if n.tag != "!!null" {
			n.kind = scalar
		}
	case yaml.SequenceNode:
		n.kind = list
		n.items = make([]*node, len(y.Content))
		for i, item := range y.Content {
			n.items[i] = p.node(item)
		}
	case yaml.MappingNode:
		n.kind = mapping
		p.mapping(n, y.Content)
	}
	if y.Anchor != "" {
		p.done[y] = n
	}
	return n
}

// mapping sets the entries of n: its own, and then the merged (<<) entries with other keys.
func (p *parser) mapping(n *node, content []*yaml.Node) {
	n.entries = make([]entry, 0, len(content)/2)
	have := make(map[string]position, len(content)/2)
	var merges []*node
	for i := 0; i+1 < len(content); i += 2 {
		key, at := content[i], p.place(content[i])
		for key.Kind == yaml.AliasNode {
			key = key.Alias
		}
		if key.Kind != yaml.ScalarNode {
			p.found.add(at, "a key must be a single word; is a brace or bracket open that should be in quotes?")
			continue
		}
		value := p.node(content[i+1])
		if key.Tag == "!!merge" {
			merges = append(merges, value)
			continue
		}
		if first, twice := have[key.Value]; twice {
			p.found.add(at, "%s is here a second time, the first is in line %d; keep one of them", name(key.Value), first.line)
			continue
		}
		have[key.Value] = at
		n.entries = append(n.entries, entry{key.Value, at, value})
	}
	for _, m := range merges {
		p.merge(n, m, have)
	}
	n.reindex()
}

func (p *parser) merge(n, from *node, have map[string]position) {
	switch from.kind {
	case list:
		for _, item := range from.items {
			if item.kind != mapping {
				p.found.add(item.at, "<< merges mappings, not %s; name an anchor of a mapping", item.kind)
				continue
			}
			p.merge(n, item, have)
		}
	case mapping:
		if p.merged += len(from.entries); p.merged > maxMerged {
			p.found.add(n.at, "<< copies more than %d keys in all; write less by aliases", maxMerged)
			return
		}
		for _, e := range from.entries {
			if _, known := have[e.key]; !known {
				have[e.key] = e.at
				n.entries = append(n.entries, e)
			}
		}
	default:
		p.found.add(from.at, "<< merges mappings, not %s; name an anchor of a mapping", from.kind)
	}
}
