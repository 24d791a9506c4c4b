package filter

import (
	"slices"
	"strings"
	"time"

	"github.com/taskengine/taskengine/task"
)

// kind says which operators and values a field has.
type kind uint8

const (
	ofText kind = iota
	ofState
	ofNumber
	ofTime
	ofID
	ofKind    // of an error
	inHeader  // with a name after it
	inPayload // with a path after it
	inResult
	ofAge   // replaced by created
	ofTime2 // since and until, replaced by updated
)

// field is a field of a row.
type field struct {
	name   string
	kind   kind
	is     string // its meaning, for people
	text   func(*task.Task) string
	number func(*task.Task) int64
	time   func(*task.Task) time.Time
	id     func(*task.Task) task.ID
}

// Field describes a field for people.
type Field struct {
	Name      string
	Operators []string
	Is        string
}

var (
	equalities  = []string{"=", "!="}
	orders      = []string{"<", "<=", ">", ">="}
	textual     = []string{"=", "!=", "~", "!~"}
	numeric     = []string{"=", "!=", "<", "<=", ">", ">="}
	allOperator = []string{"=", "!=", "~", "!~", "<", "<=", ">", ">="}
)

// operators returns the operators of a kind of field.
func (k kind) operators() []string {
	switch k {
	case ofState, ofID, ofKind:
		return equalities
	case ofNumber:
		return numeric
	case ofTime, ofAge:
		return orders
	case ofTime2:
		return []string{"="}
	case inPayload, inResult:
		return allOperator
	default:
		return textual
	}
}

// Fields returns the fields of the language.
func Fields() []Field {
	all := fields()
	out := make([]Field, len(all))
	for i, f := range all {
		out[i] = Field{f.name, slices.Clone(f.kind.operators()), f.is}
		switch f.kind {
		case inHeader:
			out[i].Name += ".NAME"
		case inPayload, inResult:
			out[i].Name += ".PATH"
		}
	}
	return out
}

// fields returns the fields of rows, in the order in which people are shown them.
func fields() []field {
	return []field{
		{name: "state", kind: ofState, is: "the state"},
		{name: "type", is: "the type", text: func(t *task.Task) string { return t.Type }},
		{name: "id", kind: ofID, is: "the id", id: func(t *task.Task) task.ID { return t.ID }},
		{name: "key", is: "the unique key", text: func(t *task.Task) string { return t.Key }},
		{name: "ordering_key", is: "the ordering key", text: func(t *task.Task) string { return t.OrderingKey }},
		{name: "error", is: "the text of the newest error", text: func(t *task.Task) string { return t.LastError }},
		{name: "error.kind", kind: ofKind, is: "the kind of the newest error: 4 or more of its digits"},
		{name: "priority", kind: ofNumber, is: "the priority, 0 is the highest", number: func(t *task.Task) int64 { return int64(t.Priority) }},
		{name: "attempt", kind: ofNumber, is: "the number of attempts", number: func(t *task.Task) int64 { return int64(t.Attempt) }},
		{name: "crashes", kind: ofNumber, is: "the number of attempts in a row that crashed", number: func(t *task.Task) int64 { return int64(t.Crashes) }},
		{name: "node", is: "the name of the node of the newest attempt", text: func(t *task.Task) string { return t.Node }},
		{name: "parent", kind: ofID, is: "the id of the parent", id: parentOf},
		{name: "since", kind: ofTime2, is: "changed at this time or later, or within this duration"},
		{name: "until", kind: ofTime2, is: "changed before this time, or not within this duration"},
		{name: "age", kind: ofAge, is: "the time since the task was added, as a duration"},
		{name: "created", kind: ofTime, is: "when the task was added", time: func(t *task.Task) time.Time { return t.CreatedAt }},
		{name: "updated", kind: ofTime, is: "when it changed last", time: func(t *task.Task) time.Time { return t.UpdatedAt }},
		{name: "ready", kind: ofTime, is: "when it could run for the first time", time: func(t *task.Task) time.Time { return t.ReadyAt }},
		{name: "started", kind: ofTime, is: "when its newest attempt began", time: func(t *task.Task) time.Time { return t.StartedAt }},
		{name: "next", kind: ofTime, is: "when it is acted on next", time: func(t *task.Task) time.Time { return t.NextEventAt }},
		{name: "expires", kind: ofTime, is: "from when on it is not run any more", time: func(t *task.Task) time.Time { return t.ExpiresAt }},
		{name: "header", kind: inHeader, is: "a header, by its name"},
		{name: "payload", kind: inPayload, is: "a part of the payload, if that is JSON"},
		{name: "result", kind: inResult, is: "a part of the result, if that is JSON"},
	}
}

func parentOf(t *task.Task) task.ID {
	if t.Parent == nil {
		return task.ID{}
	}
	return t.Parent.ID
}

// fieldOf returns the field that a term begins with, by its name and by the names after it.
func fieldOf(name string, path []string) (*field, []string) {
	all := fields()
	if name == "error" && len(path) > 0 && path[0] == "kind" {
		name, path = "error.kind", path[1:]
	}
	if name == "headers" { // the name in requests
		name = "header"
	}
	i := slices.IndexFunc(all, func(f field) bool { return f.name == name })
	if i < 0 {
		return nil, path
	}
	return &all[i], path
}

// fieldNames returns the names of all fields.
func fieldNames() []string {
	all := fields()
	names := make([]string, len(all))
	for i, f := range all {
		names[i] = f.name
	}
	return names
}

// plainName reports whether a name of a path needs no quotes.
func plainName(name string) bool {
	return name != "" && strings.IndexFunc(name, func(r rune) bool {
		return r != '-' && r != '_' && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
	}) < 0
}
