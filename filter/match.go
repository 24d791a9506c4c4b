package filter

import (
	"bytes"
	"cmp"
	"encoding/json"
	"io"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"github.com/taskengine/taskengine/task"
)

// Selects reports whether f selects a row. The row has its payload and result, unless f is [Filter.OfRows].
func (f Filter) Selects(t *task.Task) bool {
	var docs documents
	for _, term := range f.terms {
		if !term.selects(t, &docs) {
			return false
		}
	}
	return true
}

// documents are the documents of a row, each parsed when it is needed first.
type documents struct {
	payload, result document
}

type document struct {
	is     any
	parsed bool
}

// part returns the values of a part of a document: that of a scalar, or those of the elements of a list.
func (d *document) part(text []byte, path []string) []any {
	if !d.parsed {
		d.parsed = true
		dec := json.NewDecoder(bytes.NewReader(text))
		dec.UseNumber()
		if dec.Decode(&d.is) != nil {
			d.is = nil
		} else if _, err := dec.Token(); err != io.EOF {
			d.is = nil
		}
	}
	return scalars(nil, d.is, path)
}

// scalars appends the scalars at a path.
func scalars(to []any, v any, path []string) []any {
	if list, ok := v.([]any); ok {
		if len(path) > 0 {
			if i, err := strconv.Atoi(path[0]); err == nil && i >= 0 {
				if i >= len(list) {
					return to
				}
				return scalars(to, list[i], path[1:])
			}
		}
		for _, e := range list {
			to = scalars(to, e, path)
		}
		return to
	}
	if object, ok := v.(map[string]any); ok {
		if len(path) == 0 {
			return to
		}
		return scalars(to, object[path[0]], path[1:])
	}
	if v == nil || len(path) > 0 {
		return to
	}
	return append(to, v)
}

func (t term) selects(row *task.Task, docs *documents) bool {
	switch f := t.field; f.kind {
	case ofState:
		return t.ofState(row.State)
	case ofNumber:
		return t.anyOf(func(v value) bool { return compared(t.op, cmp.Compare(f.number(row), v.number)) })
	case ofTime:
		at := f.time(row)
		return !at.IsZero() && compared(t.op, at.Compare(t.values[0].at))
	case ofID:
		return t.anyOf(func(v value) bool { return compared(t.op, f.id(row).Compare(v.id)) })
	case ofKind:
		kind := ""
		if row.LastError != "" {
			kind = task.KindOfError(row.LastError).String()
		}
		return t.any(func(v value) bool { return strings.HasPrefix(kind, v.text) }) != (t.op == "!=")
	case inHeader:
		var is []any
		if h, ok := row.Headers[t.path[0]]; ok {
			is = append(is, h)
		}
		return t.ofValues(is)
	case inPayload:
		return t.ofValues(docs.payload.part(row.Payload, t.path))
	case inResult:
		return t.ofValues(docs.result.part(row.Result, t.path))
	default:
		var is []any
		if text := f.text(row); text != "" {
			is = append(is, text)
		}
		return t.ofValues(is)
	}
}

// any reports whether a condition holds for one of the values.
func (t term) any(holds func(value) bool) bool { return slices.ContainsFunc(t.values, holds) }

// anyOf reports whether a comparison holds: for one of the values, or for all of them if it is !=.
func (t term) anyOf(holds func(value) bool) bool {
	if t.op == "!=" {
		return !t.any(func(v value) bool { return !holds(v) })
	}
	return t.any(holds)
}

func (t term) ofState(s task.State) bool {
	return t.any(func(v value) bool { return v.state == s }) != (t.op == "!=")
}

// compared reports whether an operator holds for the result of a comparison.
func compared(op string, result int) bool {
	switch op {
	case "=":
		return result == 0
	case "!=":
		return result != 0
	case "<":
		return result < 0
	case "<=":
		return result <= 0
	case ">":
		return result > 0
	default:
		return result >= 0
	}
}

// ofValues reports whether t holds for a field with these values: texts, numbers and booleans.
func (t term) ofValues(is []any) bool {
	switch t.op {
	case "=", "!=":
		return t.any(func(v value) bool {
			if v.text == "" {
				return !slices.ContainsFunc(is, func(one any) bool { return one != "" })
			}
			return slices.ContainsFunc(is, v.equals)
		}) != (t.op == "!=")
	case "~", "!~":
		return t.any(func(v value) bool {
			return slices.ContainsFunc(is, func(one any) bool { return contains(textOf(one), v.text) })
		}) != (t.op == "!~")
	default:
		return slices.ContainsFunc(is, func(one any) bool { return t.values[0].ordered(t.op, one) })
	}
}

func textOf(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case json.Number:
		return v.String()
	case bool:
		return strconv.FormatBool(v)
	}
	return ""
}

// equals compares v with a value of a row.
func (v value) equals(is any) bool {
	if n, ok := is.(json.Number); ok && v.decimal != nil {
		if d := decimalOf(n.String()); d != nil {
			return d.cmp(v.decimal) == 0
		}
	}
	if v.parts == nil {
		return textOf(is) == v.text
	}
	return like(textOf(is), v.parts)
}

// ordered compares a value of a row with v.
func (v value) ordered(op string, is any) bool {
	switch is := is.(type) {
	case json.Number:
		d := decimalOf(is.String())
		return d != nil && v.decimal != nil && compared(op, d.cmp(v.decimal))
	case string:
		if d := decimalOf(is); d != nil && v.decimal != nil {
			return compared(op, d.cmp(v.decimal))
		}
		return compared(op, strings.Compare(is, v.text))
	}
	return false
}

// like reports whether text consists of parts with any characters between them.
func like(text string, parts []string) bool {
	last := len(parts) - 1
	text, ok := strings.CutPrefix(text, parts[0])
	if !ok {
		return false
	}
	for _, part := range parts[1:last] {
		i := strings.Index(text, part)
		if i < 0 {
			return false
		}
		text = text[i+len(part):]
	}
	return strings.HasSuffix(text, parts[last])
}

// contains reports whether text has part in it, whatever the case of both.
func contains(text, part string) bool {
	return strings.Contains(strings.ToLower(text), strings.ToLower(part))
}

// decimal is a number.
type decimal struct{ rat *big.Rat }

func (d *decimal) cmp(other *decimal) int { return d.rat.Cmp(other.rat) }

// decimalOf returns the number that a JSON document would have as text, or nil if it is none, or one of very many digits.
func decimalOf(text string) *decimal {
	const longest, largest = 100, 400
	if text == "" || len(text) > longest || text[0] != '-' && (text[0] < '0' || text[0] > '9') || !json.Valid([]byte(text)) {
		return nil
	}
	if i := strings.IndexAny(text, "eE"); i >= 0 {
		if exponent, err := strconv.Atoi(text[i+1:]); err != nil || exponent < -largest || exponent > largest {
			return nil
		}
	}
	rat, ok := new(big.Rat).SetString(text)
	if !ok {
		return nil
	}
	return &decimal{rat}
}
