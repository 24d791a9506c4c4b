package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/template"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/taskengine/taskengine/cmd/taskengine/internal/exit"
	"github.com/taskengine/taskengine/internal/terminal"
	"github.com/taskengine/taskengine/internal/units"
)

// printForm writes a value, which is given as JSON, as a name, as YAML or by a template.
func (a *app) printForm(line []byte) error {
	if a.output == yamlText {
		return a.printYAML(line)
	}
	value, err := decodeJSON(line)
	if err != nil {
		return err
	}
	if a.output == nameOnly {
		name, ok := nameOf(value)
		switch {
		case !ok && isGap(value):
			return nil
		case !ok:
			return exit.With(exit.Usage, errNoName)
		}
		_, err := fmt.Fprintln(a.stdout, clean(name))
		return err
	}
	if a.template == nil {
		if a.template, err = a.output.template(); err != nil {
			return exit.With(exit.Usage, err)
		}
	}
	var text strings.Builder
	if err := a.template.Execute(&text, value); err != nil {
		return exit.Errorf(exit.Usage, "the template cannot be applied: %w", err)
	}
	shown := text.String()
	if a.outTTY {
		shown = terminal.Lines(shown)
	}
	_, err = fmt.Fprintln(a.stdout, shown)
	return err
}

// decodeJSON decodes a value, with numbers as they are written.
func decodeJSON(line []byte) (value any, err error) {
	d := json.NewDecoder(bytes.NewReader(line))
	d.UseNumber()
	err = d.Decode(&value)
	return value, err
}

// nameOf returns the name or the id by which verbs know a thing.
func nameOf(value any) (string, bool) {
	fields, _ := value.(map[string]any)
	text := func(field string) string { s, _ := fields[field].(string); return s }
	if of, ok := fields["task"].(map[string]any); ok { // an event, a workflow, or a task of a tree
		return nameOf(of)
	}
	_, isWorker := fields["connected_at"]
	_, isLimit := fields["configured_max"]
	switch name := text("name"); {
	case name == "" || isWorker:
	case isLimit && text("value") != "":
		return name + "/" + text("value"), true
	case text("source") != "": // a platform
		return text("source") + "/" + name, true
	default:
		return name, true
	}
	for _, field := range []string{"id", "key", "task_id"} {
		if text(field) != "" {
			return text(field), true
		}
	}
	return "", false
}

// isGap reports whether something stands for events that are missing.
func isGap(value any) bool {
	fields, _ := value.(map[string]any)
	kind, _ := fields["kind"].(string)
	return kind == "gap" || kind == "silent"
}

// parseTemplate reads a template of package text/template.
func parseTemplate(text string) (*template.Template, error) {
	if text == "" {
		return nil, errors.New("the template is empty; want one such as template={{.id}}")
	}
	return template.New("output").Funcs(template.FuncMap{
		"age":   templateAge,
		"join":  templateJoin,
		"json":  templateJSON,
		"short": func(id string) string { return id[:min(len(id), shortIDs[0])] },
	}).Parse(text)
}

// templateAge returns how long ago a time is.
func templateAge(at any) (string, error) {
	text, ok := at.(string)
	if !ok {
		return "", nil
	}
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return "", fmt.Errorf("age: %w", err)
	}
	return units.Brief(time.Since(t)), nil
}

// templateJoin joins the elements of a list.
func templateJoin(list any, separator string) string {
	all, _ := list.([]any)
	words := make([]string, len(all))
	for i, one := range all {
		words[i] = fmt.Sprint(one)
	}
	return strings.Join(words, separator)
}

// templateJSON returns a value as JSON.
func templateJSON(value any) (string, error) {
	var text strings.Builder
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	err := e.Encode(value)
	return strings.TrimSuffix(text.String(), "\n"), err
}

// printYAML writes a value as a document of YAML. A line --- is between two documents.
func (a *app) printYAML(line []byte) error {
	d := json.NewDecoder(bytes.NewReader(line))
	d.UseNumber()
	n, err := nextNode(d)
	if err != nil {
		return err
	}
	var text bytes.Buffer
	if a.documents > 0 {
		text.WriteString("---\n")
	}
	e := yaml.NewEncoder(&text)
	e.SetIndent(2)
	if err := e.Encode(n); err != nil {
		return err
	}
	if err := e.Close(); err != nil {
		return err
	}
	a.documents++
	_, err = io.WriteString(a.stdout, escapeYAML(text.String()))
	return err
}

// escapeYAML replaces the characters of a document that a terminal obeys by escape sequences: textNode has put them in quotes.
func escapeYAML(document string) string {
	if terminal.Lines(document) == document {
		return document
	}
	var b strings.Builder
	for _, r := range document {
		if one := string(r); terminal.Lines(one) == one {
			b.WriteString(one)
		} else {
			fmt.Fprintf(&b, `\U%08x`, r)
		}
	}
	return b.String()
}

// nextNode reads the next value of JSON as a node of YAML, with its fields in their order.
func nextNode(d *json.Decoder) (*yaml.Node, error) {
	token, err := d.Token()
	if err != nil {
		return nil, err
	}
	switch v := token.(type) {
	case json.Delim:
		return collection(d, v)
	case string:
		return textNode(v), nil
	case json.Number:
		tag := "!!int"
		if strings.ContainsAny(v.String(), ".eE") {
			tag = "!!float"
		}
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: tag, Value: v.String()}, nil
	case bool:
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!bool", Value: fmt.Sprint(v)}, nil
	default:
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null", Value: "null"}, nil
	}
}

// textNode returns a text. If a terminal would obey a part of it, it is in quotes, with escape sequences.
func textNode(text string) *yaml.Node {
	n := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: text}
	if terminal.Lines(text) != text {
		n.Style = yaml.DoubleQuotedStyle
	}
	return n
}

// collection reads an object or a list after its first delimiter.
func collection(d *json.Decoder, open json.Delim) (*yaml.Node, error) {
	n := &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq"}
	if open == '{' {
		n.Kind, n.Tag = yaml.MappingNode, "!!map"
	}
	for d.More() {
		one, err := nextNode(d)
		if err != nil {
			return nil, err
		}
		n.Content = append(n.Content, one)
	}
	_, err := d.Token()
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}
