package cli

import (
	"fmt"

	"github.com/taskengine/taskengine/internal/terminal"
)

// output is how data is shown.
type output string

const (
	table    output = "table"
	jsonText output = "json"
)

// String implements [pflag.Value].
func (o *output) String() string {
	if *o == "" {
		return string(table)
	}
	return string(*o)
}

// Set implements [pflag.Value].
func (o *output) Set(s string) error {
	if s != string(table) && s != string(jsonText) {
		return fmt.Errorf("want table or json")
	}
	*o = output(s)
	return nil
}

// Type implements [pflag.Value].
func (o *output) Type() string { return "table|json" }

// json reports whether the output is JSON.
func (a *app) json() bool { return a.output == jsonText }

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
