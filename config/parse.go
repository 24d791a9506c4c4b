package config

import (
	"errors"
	"io"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"
)

// nodeKind is what stands in a place of the file.
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

// node is a value of the file. It does not change once it is made, and may stand in
// several places because of aliases.
type node struct {
	at      position
	kind    nodeKind
	text    string // of a scalar
	quoted  bool   // the scalar was written in quotes or as a block: it is text and no number
	tag     string // what YAML takes the scalar for, such as !!int
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
	p := &parser{in: in, found: found, done: map[*yaml.Node]*node{}}
	if !p.readable() {
		return nil
	}
	loader, err := yaml.NewLoader(strings.NewReader(in.text))
	if err != nil {
		found.add(position{in: in}, "cannot be read as YAML: %v", err)
		return nil
	}
	var first, second yaml.Node
	if err := loader.Load(&first); err != nil {
		p.refuse(err)
		return nil
	}
	switch err := loader.Load(&second); {
	case err == nil:
		found.add(p.place(&second), "a second document begins here; put everything into one, without ---")
	default:
		p.refuse(err)
	}
	if len(first.Content) == 0 {
		return nil
	}
	return p.node(first.Content[0])
}

// readable reports whether the text is UTF-8 without control characters, and says
// where it is not.
func (p *parser) readable() bool {
	text := strings.TrimPrefix(p.in.text, "\ufeff")
	line, column := 1, 0
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRuneInString(text[i:])
		i += size
		column++
		switch {
		case r == utf8.RuneError && size == 1:
			p.found.add(position{p.in, line, column}, "is not UTF-8; save the file as UTF-8")
			return false
		case r == '\n':
			line, column = line+1, 0
		case r < ' ' && r != '\r' && r != '\t' || r == 0x7f:
			p.found.add(position{p.in, line, column}, "has the control character %U; remove it", r)
			return false
		}
	}
	return true
}

// refuse notes a syntax error; the end of the text is none.
func (p *parser) refuse(err error) {
	if errors.Is(err, io.EOF) {
		return
	}
	var e *yaml.LoadError
	if !errors.As(err, &e) {
		p.found.add(position{in: p.in}, "cannot be read as YAML: %v", err)
		return
	}
	at := position{p.in, e.Mark.Line, e.Mark.Column}
	text := e.Message
	if line, _ := p.in.line(at.line); strings.TrimSpace(line) == "" && e.ContextMark.Line > 0 {
		at = position{p.in, e.ContextMark.Line, e.ContextMark.Column}
	}
	if e.ContextMsg != "" {
		text += " " + e.ContextMsg
	}
	p.found.add(at, "is not YAML: %s%s", text, p.remedy(at))
}

// remedy says what to do about the usual mistakes at a place.
func (p *parser) remedy(at position) string {
	line, _ := p.in.line(at.line)
	runes := []rune(line)
	if at.column < 1 || at.column > len(runes) {
		return "; close what was opened"
	}
	switch runes[at.column-1] {
	case '\t':
		return "; indent with spaces, not with tabs"
	case '*':
		return "; name an anchor that stands further up, or write the value in quotes"
	case '@', '`', '%', '&', '!', '|', '>':
		return "; write the value in quotes"
	case '\'', '"', '[', '{':
		return "; close what was opened"
	case ':':
		return "; write a value that contains a colon in quotes"
	}
	return "; check the indentation and the quotes"
}

func (p *parser) place(n *yaml.Node) position { return position{p.in, n.Line, n.Column} }

// node makes a node of what the YAML library read. Aliases share their node.
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
			n.tag = "!!str" // it is refused already, so once
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

// mapping fills in the entries of n: its own, and then what it merges (<<) and does
// not have itself.
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
