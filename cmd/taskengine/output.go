package main

import (
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"

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

// json reports whether data is to be written as JSON.
func (a *app) json() bool { return a.output == jsonText }

// printJSON writes a value as one line of JSON.
func (a *app) printJSON(v any) error {
	e := json.NewEncoder(terminal.JSONWriter(a.stdout))
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

// printTable writes rows in columns. Nothing is written before the last row is there.
func (a *app) printTable(head []string, rows [][]string) error {
	w := tabwriter.NewWriter(a.stdout, 0, 8, 2, ' ', 0)
	writeRow(w, head)
	for _, row := range rows {
		writeRow(w, row)
	}
	return w.Flush()
}

func writeRow(w io.Writer, cells []string) {
	for i, c := range cells {
		c = clean(c)
		if i == len(cells)-1 {
			fmt.Fprintln(w, c)
			return
		}
		if c == "" {
			c = "-"
		}
		fmt.Fprint(w, c, "\t")
	}
}

// clean makes text that comes from tasks fit for a terminal: on one line, and without
// what a terminal would obey.
func clean(s string) string { return terminal.Line(s) }

// short cuts text to n characters.
func short(s string, n int) string {
	runes := []rune(s)
	if len(runes) <= n {
		return s
	}
	return string(runes[:n-1]) + "…"
}
