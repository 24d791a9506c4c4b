package filter

import (
	"errors"
	"slices"
	"strings"

	"github.com/taskengine/taskengine/task"
)

// Attribute is a place in tasks of a type, of which stores find values by an index: a part of the payload, or a header.
type Attribute struct{ of Place }

// ParseAttribute parses a place such as payload.customer.id or headers.tenant.
func ParseAttribute(text string) (Attribute, error) {
	names := strings.Split(text, ".")
	f, path := fieldOf(names[0], names[1:])
	switch {
	case f == nil || f.kind != inHeader && f.kind != inPayload:
		return Attribute{}, errors.New("is no place that can be searched; write payload.NAME or headers.NAME")
	case slices.Contains(names, "") || len(path) == 0:
		return Attribute{}, errors.New("has an empty name; write payload.NAME or headers.NAME")
	case f.kind == inHeader: // the name of a header may have dots
		path = []string{strings.Join(path, ".")}
	}
	return Attribute{Place{f.name, path}}, nil
}

// String returns the field as filters have it, such as payload.customer.id or header.tenant.
func (a Attribute) String() string {
	f, _ := fieldOf(a.of.Field, nil)
	return term{field: f, path: a.of.Path}.String()
}

// InPayload reports whether the values are those of a part of the payload.
func (a Attribute) InPayload() bool { return a.of.Field == "payload" }

// SearchValues returns the search values of a task of a type with these attributes, nil if it has none.
func SearchValues(typ string, of []Attribute, headers map[string]string, payload []byte) (values []task.SearchValue) {
	var doc document
	for _, a := range of {
		name := a.String()
		if !a.InPayload() {
			if text := headers[a.of.Path[0]]; text != "" {
				values = append(values, task.SearchValueOf(typ, name, canonical(text)))
			}
			continue
		}
		for _, part := range doc.part(payload, a.of.Path) {
			if text := textOf(part); text != "" {
				values = append(values, task.SearchValueOf(typ, name, canonical(text)))
			}
		}
	}
	slices.Sort(values)
	if values = slices.Compact(values); len(values) > task.MaxSearchValues {
		return []task.SearchValue{task.Unread}
	}
	return values
}

// Lookup is a condition of a filter that an index of an attribute serves: all selected tasks have one of some values there.
type Lookup struct {
	Attribute string // as [Attribute.String] returns it
	texts     []string
}

// Lookups returns the conditions of f that say which values a part of the payload or a header has.
func (f Filter) Lookups() (all []Lookup) {
	for _, t := range f.terms {
		if t.op != "=" || t.field.kind != inHeader && t.field.kind != inPayload || t.any(func(v value) bool { return v.text == "" || v.parts != nil }) {
			continue
		}
		l := Lookup{Attribute: t.name()}
		for _, v := range t.values {
			l.texts = append(l.texts, canonical(v.text))
		}
		all = append(all, l)
	}
	return all
}

// Values returns the search values of which tasks of these types have one that meet l, and [task.Unread].
func (l Lookup) Values(types []string) []task.SearchValue {
	values := []task.SearchValue{task.Unread}
	for _, typ := range types {
		for _, text := range l.texts {
			values = append(values, task.SearchValueOf(typ, l.Attribute, text))
		}
	}
	slices.Sort(values)
	return slices.Compact(values)
}

// canonical returns the same text for all texts that = takes for equal: of numbers, the value.
func canonical(text string) string {
	if isPlain(text) {
		return text
	}
	if d := decimalOf(text); d != nil {
		return d.rat.RatString()
	}
	return text
}

// isPlain reports whether canonical returns text as it is: it begins like no number, or is one of few digits.
func isPlain(text string) bool {
	if text == "" || text[0] != '-' && (text[0] < '0' || text[0] > '9') {
		return true
	}
	return len(text) < 20 && text[0] != '0' && strings.Trim(text, "0123456789") == ""
}
