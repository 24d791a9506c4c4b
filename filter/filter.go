package filter

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/taskengine/taskengine/task"
)

// Filter selects tasks. The zero Filter selects all. It does not change.
type Filter struct {
	terms []term
}

// term is a condition on one field.
type term struct {
	field  *field
	path   []string // within a document, or the name of a header
	op     string
	values []value
}

// value is a value on the right of an operator.
type value struct {
	text    string   // as it is compared
	quoted  bool     // it was in quotes, or has to be
	parts   []string // between the * of a word; nil without
	state   task.State
	number  int64
	decimal *decimal // of a part of a document, if the word is a number
	at      time.Time
	id      task.ID
}

// Rows returns the terms of f that need neither payload nor result.
func (f Filter) Rows() Filter {
	return Filter{slices.DeleteFunc(slices.Clone(f.terms), term.needsWhole)}
}

// OfRows reports whether f needs neither payload nor result.
func (f Filter) OfRows() bool { return !slices.ContainsFunc(f.terms, term.needsWhole) }

func (t term) needsWhole() bool { return t.field.kind == inPayload || t.field.kind == inResult }

// Place is what a term of a filter reads: a field of [Fields] by its name, and the names after it.
type Place struct {
	Field string // such as error, header and payload
	Path  []string
}

// Places returns what f reads.
func (f Filter) Places() []Place {
	all := make([]Place, len(f.terms))
	for i, t := range f.terms {
		all[i] = Place{t.field.name, slices.Clone(t.path)}
	}
	return all
}

// And returns a filter that selects the tasks that both select.
func (f Filter) And(other Filter) Filter {
	return Filter{slices.Concat(f.terms, other.terms)}
}

// String returns f in the language of this package. The result selects the same tasks at any time.
func (f Filter) String() string {
	terms := make([]string, len(f.terms))
	for i, t := range f.terms {
		terms[i] = t.String()
	}
	return strings.Join(terms, " ")
}

func (t term) String() string {
	var b strings.Builder
	b.WriteString(t.field.name)
	for _, name := range t.path {
		b.WriteByte('.')
		if plainName(name) {
			b.WriteString(name)
		} else {
			b.WriteString(quote(name))
		}
	}
	b.WriteString(t.op)
	for i, v := range t.values {
		if i > 0 {
			b.WriteByte(',')
		}
		if v.quoted {
			b.WriteString(quote(v.text))
		} else {
			b.WriteString(v.text)
		}
	}
	return b.String()
}

// WithoutContent returns f in words, with ? in place of values that tasks carry: keys, headers, errors, and parts of payloads and results.
func (f Filter) WithoutContent() string {
	terms := make([]string, len(f.terms))
	for i, t := range f.terms {
		switch isText := t.field.kind == ofText && t.field.name != "type" && t.field.name != "node"; {
		case isText, t.field.kind == inHeader, t.field.kind == inPayload, t.field.kind == inResult:
			t.values = []value{{text: "?"}}
		}
		terms[i] = t.String()
	}
	return strings.Join(terms, " ")
}

// Lasting returns the terms of f that a task fulfils for as long as it exists, if it has fulfilled them once.
func (f Filter) Lasting() (out Filter) {
	for _, t := range f.terms {
		switch t.field.name {
		case "type", "id", "ordering_key", "parent", "created":
			out.terms = append(out.terms, t)
		}
	}
	return out
}

// quote returns text as a value in quotes.
func quote(text string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(text) + `"`
}

// Bounds are bounds of the tasks that a filter selects, for a store that finds rows by them. All of these tasks are within
// them; others may be, too.
type Bounds struct {
	States []task.State // nil for all
	Types  []string     // nil for all
	Key    string       // "" for any
	IDs    []task.ID    // the greatest first; nil for any

	// Kinds are the kinds of the newest error, if all tasks are in the state [task.Error]; nil for all.
	Kinds []task.KindRange
	// Exact says that all tasks within the bounds are selected.
	Exact bool
}

// Bounds returns the bounds of f. ok is false if it selects no task at all.
func (f Filter) Bounds() (b Bounds, ok bool) {
	b.Exact = true
	kinds := 0
	for _, t := range f.terms {
		if !t.bound(&b) {
			return Bounds{}, false
		}
		switch {
		case t.field.kind == ofKind && t.op == "=":
			kinds++
			b.Kinds = t.kinds()
		case t.field.kind != ofState && (t.field.name != "type" || t.op != "=" || t.any(func(v value) bool { return v.parts != nil })):
			b.Exact = false
		}
	}
	if len(b.States) != 1 || b.States[0] != task.Error {
		b.Exact, b.Kinds = b.Exact && kinds == 0, nil
	}
	b.Exact = b.Exact && kinds <= 1
	return b, true
}

// kinds returns the kinds that begin with the digits of t.
func (t term) kinds() []task.KindRange {
	var all []task.KindRange
	for _, v := range t.values {
		from, err := strconv.ParseUint(v.text, 16, 64)
		if err != nil {
			return nil
		}
		rest := 4 * (kindDigits - len(v.text))
		all = append(all, task.KindRange{From: task.ErrorKind(from << rest), To: task.ErrorKind((from+1)<<rest - 1)})
	}
	return all
}

// bound narrows b to t, and reports whether there may be tasks left.
func (t term) bound(b *Bounds) bool {
	switch {
	case t.field.kind == ofState:
		return t.boundStates(b)
	case t.op != "=":
	case t.field.name == "type":
		return t.boundTypes(b)
	case t.field.name == "id":
		return t.boundIDs(b)
	case t.field.name == "key" && len(t.values) == 1 && t.values[0].text != "" && t.values[0].parts == nil:
		if b.Key == "" {
			b.Key = t.values[0].text
		}
		return b.Key == t.values[0].text
	}
	return true
}

func (t term) boundIDs(b *Bounds) bool {
	var ids []task.ID
	for _, v := range t.values {
		if v.id.IsZero() {
			return true
		}
		if b.IDs == nil || slices.Contains(b.IDs, v.id) {
			ids = append(ids, v.id)
		}
	}
	slices.SortFunc(ids, func(a, b task.ID) int { return b.Compare(a) })
	b.IDs = slices.Compact(ids)
	return len(ids) > 0
}

func (t term) boundStates(b *Bounds) bool {
	var left []task.State
	for _, s := range task.States() {
		if (b.States == nil || slices.Contains(b.States, s)) && t.ofState(s) {
			left = append(left, s)
		}
	}
	b.States = left
	return len(left) > 0
}

func (t term) boundTypes(b *Bounds) bool {
	var names []string
	for _, v := range t.values {
		if v.parts != nil {
			return true
		}
		if b.Types == nil || slices.Contains(b.Types, v.text) {
			names = append(names, v.text)
		}
	}
	b.Types = names
	return len(names) > 0
}

// Of returns the filter of tasks in one of these states, of one of these types, with a key. What is empty selects all.
func Of(states []task.State, types []string, key string) Filter {
	var f Filter
	add := func(name string, values []value) {
		if len(values) > 0 {
			of, _ := fieldOf(name, nil)
			f.terms = append(f.terms, term{field: of, op: "=", values: values})
		}
	}
	var in, of, with []value
	for _, s := range states {
		in = append(in, value{text: s.String(), state: s})
	}
	for _, typ := range types {
		of = append(of, value{text: typ, quoted: true})
	}
	if key != "" {
		with = append(with, value{text: key, quoted: true})
	}
	add("state", in)
	add("type", of)
	add("key", with)
	return f
}
