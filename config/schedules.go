package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"time"

	"github.com/taskengine/taskengine/internal/suggest"
	"github.com/taskengine/taskengine/schedule"
	"github.com/taskengine/taskengine/schedule/calendar"
	"github.com/taskengine/taskengine/task"
	"github.com/taskengine/taskengine/workflow"
)

// schedules reports schedules that cannot be, or add tasks of types that do not exist.
func (d *decoder) schedules() {
	for _, name := range slices.Sorted(maps.Keys(d.cfg.Schedules)) {
		s := d.cfg.Schedules[name]
		written := d.cfg.tree.find("schedules").child(name)
		d.typeOf(s.Task.Type, []string{"schedules", name, "type"})
		if d.isWrongBelow(written) {
			continue // that was reported
		}
		if s.Task.Workflow == "" && written.value.find("input") != nil {
			d.conflict([]string{"schedules", name, "input"}, "input is for a workflow; write payload for the payload of a task")
			continue
		}
		if s.Task.Workflow != "" && !d.scheduledWorkflow(name, &s.Task, written) {
			continue
		}
		if s.Task.Type == workflow.Type {
			if _, err := workflow.ParseSpec([]byte(s.Task.Payload)); err != nil {
				d.conflict([]string{"schedules", name, "payload"}, err.Error())
			}
		}
		if _, err := s.Calendar(name); err != nil {
			path := []string{"schedules", name}
			var wrong *calendar.ExpressionError
			if errors.As(err, &wrong) {
				path = append(path, "cron")
			}
			d.conflict(path, err.Error())
		}
	}
}

// scheduledWorkflow reports mistakes in the workflow of a schedule and its input.
func (d *decoder) scheduledWorkflow(name string, t *schedule.Template, written *entry) (ok bool) {
	w, known := d.cfg.Workflows[t.Workflow]
	switch {
	case written.value.find("payload") != nil:
		d.conflict([]string{"schedules", name, "payload"}, "payload is for a type; write input for the input of the workflow")
	case !known && d.cfg.tree.find("workflows").child(t.Workflow) == nil:
		d.conflict([]string{"schedules", name, "workflow"}, fmt.Sprintf("there is no workflow %q; add it to workflows%s", t.Workflow, orNearest(t.Workflow, slices.Sorted(maps.Keys(d.cfg.Workflows)))))
	case w == nil: // that was reported
	default:
		_, err := workflow.Request(w, t.SampleInput())
		if err != nil {
			d.conflict([]string{"schedules", name, "input"}, err.Error())
		}
		return err == nil
	}
	return false
}

// typeOf refuses a type of tasks that cannot be, or is not there; "" was reported, or need not be there.
func (d *decoder) typeOf(typ string, path []string) {
	if _, known := d.cfg.Types[typ]; known || typ == "" || d.cfg.tree.find("types").child(typ) != nil {
		return
	}
	if typ == workflow.Type {
		return
	}
	if task.IsReservedType(typ) {
		d.conflict(path, fmt.Sprintf("%s is reserved: types that begin with %s belong to the engine; name one of types", typ, task.ReservedTypes))
		return
	}
	d.conflict(path, fmt.Sprintf("there is no type %q; add it to types%s", typ, orNearest(typ, slices.Sorted(maps.Keys(d.cfg.Types)))))
}

// orNearest advises a name that may be meant.
func orNearest(word string, names []string) string {
	if near := suggest.Nearest(word, names); near != "" {
		return ", or did you mean " + near + "?"
	}
	return ""
}

// isWrongBelow reports whether there is a problem with a value in the mapping of e.
func (d *decoder) isWrongBelow(e *entry) bool {
	if e == nil || e.value.kind != mapping {
		return true
	}
	return slices.ContainsFunc(e.value.entries, func(f entry) bool { return d.found.at(f.at) || d.found.at(f.value.at) })
}

// moment is a time of the calendar.
func moment() value[time.Time] {
	return value[time.Time]{
		want: "a time, such as 2027-01-31T18:00:00Z", json: orReference(document{"type": "string", "format": "date-time"}),
		parse: func(t text) (time.Time, error) {
			at, err := time.Parse(time.RFC3339, t.value)
			if err != nil {
				return at, fmt.Errorf("%s is no time with a zone; write one such as 2027-01-31T18:00:00Z or 2027-01-31T18:00:00+01:00", t.shown())
			}
			return at, nil
		},
	}
}

// maybe is a value that need not be given: the target is a pointer.
type maybe[T any] struct{ value[T] }

func (m maybe[T]) decode(d *decoder, n *node, into any) {
	read := new(T)
	m.value.decode(d, n, read)
	*into.(**T) = read
}

// anything is a value of any kind, which is written as JSON.
type anything struct{}

func (anything) decode(d *decoder, n *node, into any) {
	v, ok := d.plain(n)
	if !ok {
		return
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		d.fault(n.at, "cannot be written as JSON: %v", err)
		return
	}
	*into.(*string) = string(bytes.TrimSuffix(b.Bytes(), []byte("\n")))
}

func (anything) words() string    { return "any value" }
func (anything) schema() document { return document{} }

// plain returns a value as encoding/json takes it.
func (d *decoder) plain(n *node) (any, bool) {
	switch n.kind {
	case nothing:
		return nil, true
	case list:
		all := make([]any, len(n.items))
		for i, item := range n.items {
			v, ok := d.plain(item)
			if !ok {
				return nil, false
			}
			all[i] = v
		}
		return all, true
	case mapping:
		all := make(map[string]any, len(n.entries))
		for _, e := range n.entries {
			v, ok := d.plain(e.value)
			if !ok {
				return nil, false
			}
			all[e.key] = v
		}
		return all, true
	}
	t, err := d.resolve(n)
	if err != nil {
		d.fault(n.at, "%v", err)
		return nil, false
	}
	if t.ref != "" || n.quoted {
		return t.value, true
	}
	switch n.tag {
	case "!!int", "!!float", "!!bool":
		if json.Valid([]byte(t.value)) {
			return json.RawMessage(t.value), true
		}
		d.fault(n.at, "%s is no number of JSON; write another one, or text in quotes", t.value)
		return nil, false
	case "!!null":
		return nil, true
	}
	if isNumeral(t.value) {
		d.fault(n.at, "%s is a number that no float64 holds; write text in quotes", t.value)
		return nil, false
	}
	return t.value, true
}

// isNumeral reports whether a plain scalar is written like a number in decimals, however large that is: other readers of
// YAML take it for a number, or for infinity.
var isNumeral = regexp.MustCompile(`^[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?$`).MatchString
