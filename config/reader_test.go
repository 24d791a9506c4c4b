package config

import (
	"strings"
	"testing"
	"time"
)

// pause is the type into which these tests read texts.
type pause struct {
	Name string
	Of   time.Duration
}

func readPauses(text string, sets ...string) ([]pause, error) {
	r, top := NewReader("t.yaml", text, sets...)
	if err := r.Err(); err != nil {
		return nil, err
	}
	var all []pause
	r.Object(top, Keys{"pauses": func(v Value) {
		r.List(v, func(v Value) {
			var p pause
			r.Object(v, Keys{"name": r.Text(&p.Name), "of": r.Duration(&p.Of, time.Hour)})
			all = append(all, p)
		})
	}})
	return all, r.Err()
}

func TestAReaderReadsListsSingleValuesAliasesAndSets(t *testing.T) {
	for _, c := range []struct {
		name, text string
		sets       []string
		want       []pause
	}{
		{"nothing", "", nil, nil},
		{"one", "pauses: {name: a, of: 1s}", nil, []pause{{"a", time.Second}}},
		{"a list", "pauses: [{name: a}, {name: b, of: 2m}]", nil, []pause{{"a", 0}, {"b", 2 * time.Minute}}},
		{"an alias", "pauses: [&a {name: a, of: 1s}, {<<: *a, name: b}]", nil, []pause{{"a", time.Second}, {"b", time.Second}}},
		{"a set of an item", "pauses: [{name: a}, {name: b}]", []string{"pauses.1.of=3s"}, []pause{{"a", 0}, {"b", 3 * time.Second}}},
		{"a set of a single value", "pauses: {name: a}", []string{"pauses.0.of=3s"}, []pause{{"a", 3 * time.Second}}},
		{"a set of all", "pauses: {name: a}", []string{"pauses=[{name: x}]"}, []pause{{"x", 0}}},
	} {
		got, err := readPauses(c.text, c.sets...)
		if err != nil || len(got) != len(c.want) {
			t.Errorf("%s: read %v, %v; want %v", c.name, got, err, c.want)
			continue
		}
		for i := range got {
			if got[i] != c.want[i] {
				t.Errorf("%s: item %d is %v, want %v", c.name, i, got[i], c.want[i])
			}
		}
	}
}

func TestAReaderSaysWhatIsWrongAndWhere(t *testing.T) {
	for text, want := range map[string]string{
		"pauses: [{nmae: a}]":           "t.yaml:1:11: pauses.0: nmae is no key here; did you mean name?",
		"pauses: [{of: 2h}]":            "t.yaml:1:15: pauses.0.of: 2h is too long; write at most 1h0m0s",
		"pauses: {name: [a]}":           "t.yaml:1:16: pauses.name: is a list; write string",
		"- a":                           "t.yaml:1:1: is a list; write keys such as pauses",
		"pauses: [":                     "is not YAML",
		"pauses: &a [*a]":               "stands for something that contains it",
		strings.Repeat(" ", maxFile+1):  "t.yaml: is larger than 1MiB",
		"pauses: {name: a, name: b}":    "t.yaml:1:19: name is here a second time",
		"pauses: {name: a}\n---\na: b ": "a second document begins here",
	} {
		if _, err := readPauses(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: the error is %v, want %s", text, err, want)
		}
	}
}
