package config

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/taskengine/taskengine/internal/suggest"
)

// shape describes the allowed form of a value in the file, and decodes it.
type shape interface {
	// decode decodes n into the value that into points to, or records a problem and leaves
	// the value usable. n is never nil.
	decode(d *decoder, n *node, into any)
	// schema returns the JSON Schema of the value.
	schema() document
	// words describes the values to write, for the reference.
	words() string
}

// maxVisits is how many values are read, including repetitions by aliases.
const maxVisits = 1_000_000

// walker has the state of reading a tree from the top: the path of the current value, and the mistakes
// found so far. It is used by one goroutine.
type walker struct {
	found  *findings
	path   []string
	visits int
}

// enter calls read to read a value below the present path.
func (w *walker) enter(part string, at position, read func()) {
	if w.visits++; w.visits > maxVisits {
		if w.visits == maxVisits+1 {
			w.found.add(at, "aliases repeat more than %d values; write less by aliases", maxVisits)
		}
		return
	}
	w.path = append(w.path, part)
	read()
	w.path = w.path[:len(w.path)-1]
}

// fault records a problem of the current value.
func (w *walker) fault(at position, format string, args ...any) {
	if w.found.full() {
		return
	}
	said := fmt.Sprintf(format, args...)
	if len(w.path) > 0 {
		said = joinPath(w.path) + ": " + said
	}
	w.found.add(at, "%s", said)
}

// is reports whether n is of the kind, and records a problem if it is not.
func (w *walker) is(n *node, kind nodeKind, want string) bool {
	switch {
	case n.kind == kind:
		return true
	case n.kind == nothing:
		w.fault(n.at, "has no value; write %s, or remove the key", want)
	default:
		w.fault(n.at, "is %s; write %s", n.kind, want)
	}
	return false
}

// decoder fills a Config from a tree.
type decoder struct {
	walker
	cfg    *Config
	folder string // of the file, for relative paths
	env    func(string) (string, bool)
}

// enter decodes a value below the present path.
func (d *decoder) enter(part string, s shape, n *node, into any) {
	d.walker.enter(part, n.at, func() { s.decode(d, n, into) })
}

// text is a scalar with its reference resolved.
type text struct {
	value string
	ref   string // such as ${NAME}, if the value comes from a reference
	file  string // the path of the file that the reference names; "" if it names none
	node  *node
}

// shown returns the start of the text, in quotes.
func (t text) shown() string { return fmt.Sprintf("%.40q", t.value) }

// maxSecret is how large a file may be that ${file:PATH} names.
const maxSecret = 1 << 20

// resolve resolves the reference of a scalar: ${NAME} is an environment variable and
// ${file:PATH} the content of a file. $${ stands for the text ${.
func (d *decoder) resolve(n *node) (text, error) {
	inner, opened := strings.CutPrefix(n.text, "${")
	inner, closed := strings.CutSuffix(inner, "}")
	if !opened || !closed || strings.Contains(inner, "${") {
		for rest, from := n.text, 0; ; {
			i := strings.Index(rest[from:], "${")
			if i < 0 {
				break
			}
			if i += from; i == 0 || rest[i-1] != '$' {
				return text{}, errors.New("has a reference within a string, but ${...} must be the whole value; put all of the value into the variable, or write $${ for a literal ${")
			}
			from = i + 2
		}
		return text{value: strings.ReplaceAll(n.text, "$${", "${"), node: n}, nil
	}
	if path, isFile := strings.CutPrefix(inner, "file:"); isFile {
		if path == "" {
			return text{}, fmt.Errorf("%s names no file; write ${file:PATH}", n.text)
		}
		path = d.within(path)
		content, err := readSecret(path)
		if err != nil {
			return text{}, fmt.Errorf("%s cannot be read: %w; correct the path or the rights of the file", n.text, err)
		}
		return text{value: content, ref: n.text, file: path, node: n}, nil
	}
	if !isVariable(inner) {
		return text{}, fmt.Errorf("%.40q is no reference; write ${NAME} for an environment variable or ${file:PATH}", n.text)
	}
	value, ok := d.env(inner)
	if !ok {
		return text{}, fmt.Errorf("the environment variable %s is not set; set it before the start", inner)
	}
	return text{value: value, ref: n.text, node: n}, nil
}

// readSecret reads the file of a reference, without a newline at its end.
func readSecret(path string) (string, error) {
	switch info, err := os.Stat(path); { // before opening it, because opening a pipe would wait
	case err != nil:
		return "", err
	case !info.Mode().IsRegular():
		return "", errors.New("it is not a regular file")
	}
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	content, err := io.ReadAll(io.LimitReader(f, maxSecret+1))
	switch {
	case err != nil:
		return "", err
	case len(content) > maxSecret:
		return "", fmt.Errorf("it is larger than %d bytes", maxSecret)
	}
	s, ended := strings.CutSuffix(strings.TrimPrefix(string(content), "\ufeff"), "\n") // some editors begin a file with this mark
	if ended {
		s = strings.TrimSuffix(s, "\r")
	}
	return s, nil
}

// within returns a path in the file as a path for this process.
func (d *decoder) within(path string) string {
	if filepath.IsAbs(path) {
		return filepath.Clean(path)
	}
	return filepath.Join(d.folder, path)
}

func isVariable(s string) bool {
	for i, r := range s {
		letter := r == '_' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
		if !letter && (i == 0 || r < '0' || r > '9') {
			return false
		}
	}
	return s != ""
}

// field is one key of an object.
type field struct {
	name      string
	doc       string             // its description, in sentences
	def       string             // the default, as written in the file; "" if there is none
	otherwise string             // the default in words, if def cannot express it
	holds     func(*Config) bool // whether def is the default in a configuration; nil is always
	required  bool
	is        shape
	at        func(object any) any // returns a pointer to the value in the object
}

// in returns the at of a field from a function of typed pointers.
func in[T, V any](at func(*T) *V) func(any) any {
	return func(object any) any { return at(object.(*T)) }
}

// object is a mapping with known keys.
type object struct {
	what   string // for messages: "a handler that runs a plugin"
	fields []field
	rivals [][]string        // keys of which at most one is given, by groups
	later  map[string]string // keys of other versions, and the hint in messages about them
}

func (o *object) decode(d *decoder, n *node, into any) {
	if n.kind != nothing && !d.is(n, mapping, "keys such as "+o.fields[0].name) {
		return
	}
	given := make([]*node, len(o.fields))
	rivals := make([]string, len(o.rivals)) // the key that is given, of each group
	for _, e := range n.entries {
		i := slices.IndexFunc(o.fields, func(f field) bool { return f.name == e.key })
		if i < 0 {
			o.unknown(d, e)
			continue
		}
		given[i] = e.value
		if group := o.rivalsOf(e.key); group >= 0 {
			if rivals[group] != "" {
				d.fault(e.at, "%s cannot go with %s; keep one of them", e.key, rivals[group])
				given[i] = nil
			}
			rivals[group] = e.key
		}
	}
	for i, f := range o.fields {
		switch {
		case given[i] != nil:
			d.enter(f.name, f.is, given[i], f.at(into))
		case f.required:
			d.fault(n.at, "needs %s: %s", f.name, f.is.words())
		}
	}
}

// rivalsOf returns the group of rivals that a key belongs to, -1 if there is none.
func (o *object) rivalsOf(key string) int {
	return slices.IndexFunc(o.rivals, func(group []string) bool { return slices.Contains(group, key) })
}

func (o *object) unknown(d *decoder, e entry) {
	if d.found.full() {
		return
	}
	if advice, ok := o.later[e.key]; ok {
		d.fault(e.at, "%s is %s", name(e.key), advice)
		return
	}
	names := make([]string, len(o.fields))
	for i, f := range o.fields {
		names[i] = f.name
	}
	advice := suggest.Advice(e.key, names)
	if home, ok := homes()[e.key]; ok {
		advice = "it belongs to " + home
	}
	where := ""
	if o.what != "" {
		where = " of " + o.what
	}
	d.fault(e.at, "%s is no key%s; %s", name(e.key), where, advice)
}

// table is a mapping with keys of the user's choice.
type table[V any] struct {
	of     string // the name of the keys, in the plural: "types"
	keys   func(key string) error
	fresh  func(d *decoder, key string) V
	is     shape
	likely string // such as NAME, for the reference
}

func (t table[V]) decode(d *decoder, n *node, into any) {
	if n.kind == nothing || !d.is(n, mapping, "a mapping of "+t.of) {
		return
	}
	m := *into.(*map[string]V)
	if m == nil {
		m = make(map[string]V, len(n.entries))
		*into.(*map[string]V) = m
	}
	for _, e := range n.entries {
		if t.keys != nil {
			if err := t.keys(e.key); err != nil {
				d.fault(e.at, "%s %v", name(e.key), err)
				continue
			}
		}
		var v V
		if t.fresh != nil {
			v = t.fresh(d, e.key)
		}
		d.enter(e.key, t.is, e.value, &v)
		m[e.key] = v
	}
}

// sequence is a list, or a single value if that is allowed.
type sequence[V any] struct {
	is     shape
	single bool // a value that is no list stands for a list of one
	least  int
	most   int // 0 is without limit
}

func (s sequence[V]) decode(d *decoder, n *node, into any) {
	items := n.items
	switch {
	case s.single && n.kind == scalar:
		items = []*node{n}
	case n.kind == nothing && s.least == 0:
		return
	case !d.is(n, list, s.words()):
		return
	case len(items) < s.least:
		d.fault(n.at, "is empty; write %s", s.words())
		return
	case s.most > 0 && len(items) > s.most:
		d.fault(n.at, "is a list of %d; keep at most %d", len(items), s.most)
		return
	}
	values := make([]V, len(items))
	for i, item := range items {
		d.enter(fmt.Sprint(i), s.is, item, &values[i])
	}
	*into.(*[]V) = values
}
