// Package redact replaces what not every reader of tasks may see: values at named places of payloads, results, checkpoints and
// headers, and the same values in texts about a task.
package redact

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// Mark is in the place of a value that was redacted. In a document it is a JSON string.
const Mark = "[redacted]"

// least is how many bytes a value needs to be replaced in texts: a shorter one would be found in other words.
const least = 3

// Rule is a place of values: payload, result, checkpoint or headers, and the names of members after it, from the outside to the
// inside. Without names it is the whole. A list has the members of all of its elements.
type Rule struct {
	Of   string
	Path []string
}

// Parse parses a place such as payload.card.number or headers.authorization.
func Parse(text string) (Rule, error) {
	names := strings.Split(text, ".")
	switch of := names[0]; {
	case of != "payload" && of != "result" && of != "checkpoint" && of != "headers":
		return Rule{}, errors.New("is no place that can be redacted; write payload.NAME, result.NAME, checkpoint.NAME or headers.NAME")
	case slices.Contains(names, ""):
		return Rule{}, errors.New("has an empty name")
	case of == "headers" && len(names) > 1: // the name of a header may have dots
		return Rule{of, []string{strings.Join(names[1:], ".")}}, nil
	}
	return Rule{names[0], names[1:]}, nil
}

// Rules are the places of tasks of one type. The zero Rules redact nothing.
type Rules []Rule

// ParseAll parses places.
func ParseAll(texts []string) (Rules, error) {
	var all Rules
	for _, text := range texts {
		r, err := Parse(text)
		if err != nil {
			return nil, fmt.Errorf("%.80q %w", text, err)
		}
		all = append(all, r)
	}
	return all, nil
}

// Covers reports whether a value at a place would show a redacted one: the place is at, within or around a place of the rules.
// Names of headers are compared whatever their case.
func (r Rules) Covers(of string, path []string) bool {
	return slices.ContainsFunc(r, func(one Rule) bool {
		if one.Of != of {
			return false
		}
		for i := range min(len(one.Path), len(path)) {
			if one.Path[i] != path[i] && (of != "headers" || !strings.EqualFold(one.Path[i], path[i])) {
				return false
			}
		}
		return true
	})
}

// Document returns a document with [Mark] for each redacted value, and adds the values that it replaces to hidden. of is payload,
// result or checkpoint. If the rules have a place in it and it is no JSON, it is replaced as a whole.
func (r Rules) Document(of string, text []byte, hidden *Values) []byte {
	var paths [][]string
	for _, one := range r {
		if one.Of == of {
			paths = append(paths, one.Path)
		}
	}
	if len(paths) == 0 || len(text) == 0 {
		return text
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var document any
	err := d.Decode(&document)
	if err == nil {
		if _, err = d.Token(); errors.Is(err, io.EOF) {
			err = nil
		} else {
			err = errors.New("more after its end")
		}
	}
	if err != nil {
		hidden.add(string(text))
		return []byte(`"` + Mark + `"`)
	}
	changed := false
	for _, path := range paths {
		document = replace(document, path, hidden, &changed)
	}
	if !changed {
		return text
	}
	out, err := json.Marshal(document)
	if err != nil {
		return []byte(`"` + Mark + `"`)
	}
	return out
}

// replace returns v with the mark at a path.
func replace(v any, path []string, hidden *Values, changed *bool) any {
	if list, ok := v.([]any); ok && len(path) > 0 {
		for i := range list {
			list[i] = replace(list[i], path, hidden, changed)
		}
		return list
	}
	if len(path) == 0 {
		if v == nil {
			return v
		}
		hidden.addAll(v)
		*changed = true
		return Mark
	}
	if object, ok := v.(map[string]any); ok {
		if member, ok := object[path[0]]; ok {
			object[path[0]] = replace(member, path[1:], hidden, changed)
		}
	}
	return v
}

// Headers returns headers with [Mark] for each redacted value, and adds the values to hidden. It does not change its argument.
func (r Rules) Headers(headers map[string]string, hidden *Values) map[string]string {
	out := maps.Clone(headers)
	for name, value := range headers {
		if value != "" && r.Covers("headers", []string{name}) {
			hidden.add(value)
			out[name] = Mark
		}
	}
	return out
}

// Values are values that were redacted. The zero Values are none.
type Values struct{ all []string }

func (v *Values) add(text string) {
	if len(text) >= least && text != Mark && !slices.Contains(v.all, text) {
		v.all = append(v.all, text)
	}
}

// addAll adds the scalars of a part of a document.
func (v *Values) addAll(part any) {
	switch part := part.(type) {
	case string:
		v.add(part)
	case json.Number:
		v.add(part.String())
	case []any:
		for _, one := range part {
			v.addAll(one)
		}
	case map[string]any:
		for _, one := range part {
			v.addAll(one)
		}
	}
}

// Text returns a text with [Mark] for each of the values, also as JSON writes them.
func (v *Values) Text(text string) string {
	if text == "" || len(v.all) == 0 {
		return text
	}
	long := slices.Clone(v.all)
	for _, one := range v.all {
		if quoted, err := json.Marshal(one); err == nil && len(quoted) > len(one)+2 {
			long = append(long, string(quoted[1:len(quoted)-1]))
		}
	}
	slices.SortFunc(long, func(a, b string) int { return len(b) - len(a) })
	for _, one := range long {
		text = strings.ReplaceAll(text, one, Mark)
	}
	return text
}
