package cli

import (
	"errors"
	"slices"
	"strings"
	"text/template"

	"github.com/taskengine/taskengine/internal/terminal"
)

// output is how data is shown: one of the constants, or a template after templatePrefix.
type output string

const (
	table    output = "table"
	wide     output = "wide"
	nameOnly output = "name"
	jsonText output = "json"
	yamlText output = "yaml"

	templatePrefix = "template="
)

// outputs are the values of --output that need no template.
func outputs() []output { return []output{table, wide, nameOnly, jsonText, yamlText} }

// String implements [pflag.Value].
func (o *output) String() string {
	if *o == "" {
		return string(table)
	}
	return string(*o)
}

// Set implements [pflag.Value].
func (o *output) Set(s string) error {
	if text, ok := strings.CutPrefix(s, templatePrefix); ok {
		if _, err := parseTemplate(text); err != nil {
			return err
		}
	} else if !slices.Contains(outputs(), output(s)) {
		return errors.New("want table, wide, name, json, yaml or template=TEXT")
	}
	*o = output(s)
	return nil
}

// Type implements [pflag.Value].
func (o *output) Type() string { return "form" }

// template returns the template of o; nil if it has none.
func (o *output) template() (*template.Template, error) {
	text, ok := strings.CutPrefix(string(*o), templatePrefix)
	if !ok {
		return nil, nil
	}
	return parseTemplate(text)
}

// json reports whether data is shown as JSON, or in a form that is made of that.
func (a *app) json() bool { return a.output == jsonText || a.output.isMade() }

// isMade reports whether o is a form that is made of JSON, with the same fields.
func (o *output) isMade() bool {
	return *o == yamlText || *o == nameOnly || strings.HasPrefix(string(*o), templatePrefix)
}

// kind returns o without the text of its template.
func (o *output) kind() string {
	kind, _, _ := strings.Cut(o.String(), "=")
	return kind
}

// takesMore reports whether more than the asked things may be among the data, such as the nodes that did not answer.
func (o *output) takesMore() bool { return *o == jsonText || *o == yamlText }

// clean makes text that comes from tasks fit for a terminal: on one line, and without control
// sequences.
func clean(s string) string { return terminal.Line(s) }

// short cuts text to n characters.
func short(s string, n int) string {
	runes := []rune(s)
	if len(runes) <= n {
		return s
	}
	return string(runes[:n-1]) + "…"
}

// errNoName says that -o name is for other commands.
var errNoName = errors.New("the answer has no name: -o name is for commands that show tasks and other things with a name or an id")
