package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/taskengine/taskengine/task"
	"github.com/taskengine/taskengine/workflow"
)

var workflowsTable = table[*workflow.Definition]{of: "workflows", keys: isWorkflowName, likely: "NAME", is: workflowGraph{}}

// workflowGraph is the definition of a workflow, which package workflow reads.
type workflowGraph struct{}

func (workflowGraph) decode(d *decoder, n *node, into any) {
	var text string
	before := len(d.found.list)
	anything{}.decode(d, n, &text)
	if len(d.found.list) > before {
		return
	}
	w, err := workflow.Parse([]byte(text))
	if err != nil {
		d.fault(n.placeOf(err.Error()), "%v", err)
		return
	}
	*into.(**workflow.Definition) = w
}

// placeOf returns the place of the value that a text begins with as a path, as far as n has it.
func (n *node) placeOf(text string) position {
	path, _, _ := strings.Cut(text, ": ")
	for name := range strings.SplitSeq(path, ".") {
		e := n.find(name)
		if e == nil {
			break
		}
		n = e.value
	}
	return n.at
}

func (workflowGraph) words() string { return "a workflow" }

func (workflowGraph) schema() document {
	text, list := document{"type": "string"}, document{"type": "array", "items": document{"type": "string"}}
	headers := document{"type": "object", "additionalProperties": text}
	priority := document{"type": "integer", "minimum": 0, "maximum": int(task.LowestPriority)}
	key := document{"type": []any{"string", "number", "object"}, "minLength": 1} // an object is a reference
	onFailure := document{"enum": []any{"fail", "continue", "compensate"}}
	object := func(required []any, fields document) document {
		o := document{"type": "object", "additionalProperties": false, "properties": fields}
		if len(required) > 0 {
			o["required"] = required
		}
		return o
	}
	step := object(nil, document{
		"after": list, "if": text, "skip_with": document{"enum": []any{"any", "all", "none"}}, "type": text, "payload": document{}, "headers": headers, "priority": priority, "ordering_key": key,
		"for_each": document{}, "count": document{"type": "integer", "minimum": 1, "maximum": workflow.MaxFanOut},
		"need":       document{"anyOf": []any{document{"enum": []any{"all", "any"}}, document{"type": "integer", "minimum": 1}}},
		"on_failure": onFailure,
		"compensate": object([]any{"type"}, document{"type": text, "payload": document{}, "headers": headers, "priority": priority, "ordering_key": key}),
		"wait":       object(nil, document{"signal": text, "timeout": text, "for": text}),
	})
	return object([]any{"steps"}, document{
		"name": text, "steps": document{"type": "object", "additionalProperties": step, "minProperties": 1}, "on_failure": onFailure, "output": document{},
	})
}

// isWorkflowName accepts the name of a workflow.
func isWorkflowName(s string) error {
	if len(s) > workflow.MaxName {
		return fmt.Errorf("has %d bytes, of %d allowed", len(s), workflow.MaxName)
	}
	return isName(s)
}

// workflows names the workflows, and reports steps with types that do not exist.
func (d *decoder) workflows() {
	for _, name := range slices.Sorted(maps.Keys(d.cfg.Workflows)) {
		w := d.cfg.Workflows[name]
		if w == nil {
			continue // that was reported
		}
		if w.Name == "" {
			w.Name = name
		}
		for _, step := range slices.Sorted(maps.Keys(w.Steps)) {
			s, path := w.Steps[step], []string{"workflows", name, "steps", step}
			d.typeOf(s.Type, append(path, "type"))
			if s.Compensate != nil {
				d.typeOf(s.Compensate.Type, append(path, "compensate", "type"))
			}
		}
	}
}

// ParseWorkflow reads the definition of a workflow from YAML or JSON, of the file name.
func ParseWorkflow(name string, text []byte) (*workflow.Definition, error) {
	src := &source{name: name, text: string(text)}
	d := &decoder{walker: walker{found: &findings{}}, cfg: &Config{}, env: func(string) (string, bool) { return "", false }}
	tree := parse(src, d.found)
	var w *workflow.Definition
	if tree != nil && len(d.found.list) == 0 {
		workflowGraph{}.decode(d, tree, &w)
	}
	if err := d.found.err(); err != nil {
		return nil, err
	}
	return w, nil
}
