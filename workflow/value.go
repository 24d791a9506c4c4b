package workflow

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// The references in values: objects with one name, which begins with $.
const (
	refInput    = "$input"    // the input of the workflow, or a part of it
	refResult   = "$result"   // the result of a step, or a part of it
	refTask     = "$task"     // the id of the task of a step, or a list of ids
	refStep     = "$step"     // how a step has ended
	refItem     = "$item"     // the value of the list of for_each that a task is for, or a part of it
	refIndex    = "$index"    // the number of a task among those of its step, from 0 on
	refWorkflow = "$workflow" // the id of the workflow
	refLiteral  = "$literal"  // a value that is taken as it is
)

// scope is what the references in a value may name.
type scope struct {
	before map[string]bool // steps
	fans   bool            // the value is that of one of several tasks
	all    map[string]*Step
}

func parseValue(data []byte) (any, error) {
	in := json.NewDecoder(bytes.NewReader(data))
	in.UseNumber()
	var v any
	if err := in.Decode(&v); err != nil {
		return nil, fmt.Errorf("it is not JSON: %w", err)
	}
	return v, nil
}

// formatValue writes a value as JSON.
func formatValue(v any) ([]byte, error) {
	var b bytes.Buffer
	out := json.NewEncoder(&b)
	out.SetEscapeHTML(false)
	if err := out.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// reference returns the kind and the text of a reference. ok is false if v is none.
func reference(v map[string]any) (kind string, arg any, ok bool) {
	for name, arg := range v {
		if strings.HasPrefix(name, "$") {
			return name, arg, true
		}
	}
	return "", nil, false
}

// checkValue checks the references in a value at a place, and adds to reads the steps with results that they need.
func checkValue(v any, at string, sees scope, reads map[string]bool) error {
	switch v := v.(type) {
	case []any:
		for i, one := range v {
			if err := checkValue(one, at+"."+strconv.Itoa(i), sees, reads); err != nil {
				return err
			}
		}
	case map[string]any:
		if kind, arg, ok := reference(v); ok {
			if err := checkReference(v, kind, arg, sees, reads); err != nil {
				return fmt.Errorf("%s: %w", at, err)
			}
			return nil
		}
		for _, name := range slices.Sorted(maps.Keys(v)) {
			if err := checkValue(v[name], at+"."+name, sees, reads); err != nil {
				return err
			}
		}
	}
	return nil
}

func checkReference(v map[string]any, kind string, arg any, sees scope, reads map[string]bool) error {
	if len(v) != 1 {
		return fmt.Errorf("%s has other names beside it: a reference is an object with one name; write $literal for a value with such names", kind)
	}
	text, isText := arg.(string)
	if kind != refLiteral && !isText {
		return fmt.Errorf(`%s has text, such as {"$result": "charge.id"}; "" is all of it`, kind)
	}
	name, _, _ := strings.Cut(text, ".")
	switch kind {
	case refLiteral, refInput:
		return nil
	case refWorkflow:
		if text != "id" {
			return fmt.Errorf(`$workflow is %.40q, and may be "id"`, text)
		}
		return nil
	case refItem, refIndex:
		if !sees.fans {
			return fmt.Errorf("%s is for the payloads and ordering keys of a step with for_each or count", kind)
		}
		if kind == refIndex && text != "" {
			return fmt.Errorf(`$index is %.40q, and may be ""`, text)
		}
		return nil
	case refResult, refTask, refStep:
	default:
		return fmt.Errorf("there is no reference %.40q; write $literal for a value with names that begin with $", kind)
	}
	if err := checkStep(kind, name, sees); err != nil {
		return err
	}
	switch {
	case kind != refResult && name != text:
		return fmt.Errorf("%s has the name of a step and no more, and is %.80q", kind, text)
	case kind == refTask && sees.all[name].Wait != nil:
		return fmt.Errorf("$task: step %s is a wait and has no task", name)
	case kind == refResult:
		reads[name] = true
	}
	return nil
}

// checkStep checks that a reference may name a step.
func checkStep(kind, name string, sees scope) error {
	switch {
	case sees.all[name] == nil:
		return fmt.Errorf("%s: there is no step %.80q%s", kind, name, nearest(name, slices.Sorted(maps.Keys(sees.all))))
	case !sees.before[name]:
		return fmt.Errorf("%s: step %s has not ended by then; name it in after", kind, name)
	}
	return nil
}

// absent is the result of a step that was skipped: null, and so are all of its parts.
type absent struct{}

// lookup finds what a reference stands for.
type lookup func(kind, name string) (any, error)

// resolve returns a value with what its references stand for.
func resolve(v any, find lookup) (any, error) {
	switch v := v.(type) {
	case []any:
		all := make([]any, len(v))
		for i, one := range v {
			var err error
			if all[i], err = resolve(one, find); err != nil {
				return nil, err
			}
		}
		return all, nil
	case map[string]any:
		if kind, arg, ok := reference(v); ok {
			return resolveReference(kind, arg, find)
		}
		all := make(map[string]any, len(v))
		for name, one := range v {
			var err error
			if all[name], err = resolve(one, find); err != nil {
				return nil, err
			}
		}
		return all, nil
	}
	return v, nil
}

func resolveReference(kind string, arg any, find lookup) (any, error) {
	if kind == refLiteral {
		return arg, nil
	}
	text, _ := arg.(string)
	name, path := text, ""
	switch kind {
	case refResult:
		name, path, _ = strings.Cut(text, ".")
	case refInput, refItem:
		name, path = "", text
	}
	of, err := find(kind, name)
	if err != nil {
		return nil, fmt.Errorf("{%q: %q}: %w", kind, text, err)
	}
	if _, isAbsent := of.(absent); isAbsent {
		return nil, nil
	}
	part, err := partOf(of, path)
	if err != nil {
		return nil, fmt.Errorf("{%q: %q}: %w", kind, text, err)
	}
	return part, nil
}

// partOf returns the part of a value at a path of names and numbers.
func partOf(v any, path string) (any, error) {
	for path != "" {
		var name string
		name, path, _ = strings.Cut(path, ".")
		switch of := v.(type) {
		case map[string]any:
			one, has := of[name]
			if !has {
				return nil, fmt.Errorf("the value has no %.80q", name)
			}
			v = one
		case []any:
			i, err := strconv.Atoi(name)
			if err != nil || i < 0 || i >= len(of) {
				return nil, fmt.Errorf("the list has %d values, and no %.80q", len(of), name)
			}
			v = of[i]
		case nil:
			return nil, fmt.Errorf("the value is null, and has no %.80q", name)
		default:
			return nil, fmt.Errorf("the value is neither an object nor a list, and has no %.80q", name)
		}
	}
	return v, nil
}

// orderingKey returns the ordering key that is a value.
func orderingKey(v any) (string, error) {
	text := ""
	switch v := v.(type) {
	case string:
		text = v
	case json.Number:
		text = v.String()
	case int: // of $index
		text = strconv.Itoa(v)
	case map[string]any:
		return "", errors.New("the value is an object, and text or a number")
	case []any:
		return "", errors.New("the value is a list, and text or a number")
	case nil:
		return "", errors.New("the value is null, and text or a number")
	default:
		return "", fmt.Errorf("the value is %v, and text or a number", v)
	}
	switch {
	case text == "":
		return "", errors.New("the value is empty")
	case len(text) > maxKey:
		return "", fmt.Errorf("the value has %d bytes, of %d allowed", len(text), maxKey)
	}
	return text, nil
}

var errBinary = errors.New("it is neither JSON nor text: refer to its task by $task, and read the result there")

// valueOf returns data as a value of JSON: what it is written as, or as text. Empty data is null.
func valueOf(data []byte) (json.RawMessage, error) {
	switch {
	case len(data) == 0:
		return json.RawMessage("null"), nil
	case json.Valid(data):
		var b bytes.Buffer
		err := json.Compact(&b, data)
		return b.Bytes(), err
	case utf8.Valid(data):
		text, err := formatValue(string(data))
		return text, err
	}
	return nil, errBinary
}
