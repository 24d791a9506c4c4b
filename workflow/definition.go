package workflow

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/taskengine/taskengine/task"
)

// Type is the type of the tasks that are workflows.
const Type = task.WorkflowType

// Limits of definitions.
const (
	MaxName    = 200    // bytes of the name of a workflow
	MaxStep    = 60     // bytes of the name of a step
	MaxSteps   = 500    // each may have a set of children, and another for its compensation: see task.MaxChildSets
	MaxFanOut  = 10_000 // tasks of one step
	MaxSignals = task.MaxAwaited - 1
	MaxDepth   = 100      // of values within each other
	MaxAdded   = 16 << 20 // bytes of the payloads that one decision adds
)

// Definition is a graph of steps.
type Definition struct {
	Name  string           `json:"name,omitempty"` // to be read
	Steps map[string]*Step `json:"steps"`

	// OnFailure is that of the steps that have none.
	OnFailure OnFailure `json:"on_failure,omitempty"`

	// Output is the output of the workflow when it is done, which may refer to results of all steps. Empty is none.
	Output json.RawMessage `json:"output,omitempty"`
}

// Step is one step: tasks, or a Wait.
type Step struct {
	After []string `json:"after,omitempty"` // the steps that end before this one begins

	// If is a condition on the input and on the steps before this one, such as $result.check.score >= 0.8. The step is skipped if it
	// does not hold. It is looked at when the steps in After have ended. Empty always holds.
	If string `json:"if,omitempty"`
	// SkipWith says whether the step is skipped because steps in After were.
	SkipWith SkipWith `json:"skip_with,omitempty"`

	Type     string            `json:"type,omitempty"`     // of its tasks
	Payload  json.RawMessage   `json:"payload,omitempty"`  // of its tasks: a value that may have references; empty is no payload
	Headers  map[string]string `json:"headers,omitempty"`  // of its tasks
	Priority *uint8            `json:"priority,omitempty"` // of its tasks; nil for that of the type

	// OrderingKey is that of its tasks: text or a number, or a reference to one. Empty is none.
	OrderingKey json.RawMessage `json:"ordering_key,omitempty"`

	// A step has one task, or Count tasks, or one for each value of the list ForEach, which may be a reference to a list.
	ForEach json.RawMessage `json:"for_each,omitempty"`
	Count   int             `json:"count,omitempty"`
	Need    Need            `json:"need,omitzero"` // how many of the tasks have to be done

	OnFailure  OnFailure `json:"on_failure,omitempty"`
	Compensate *Action   `json:"compensate,omitempty"` // what undoes the step; nil is nothing

	Wait *Wait `json:"wait,omitempty"` // in place of tasks
}

// Action describes the task that undoes a task of a step. Within it, the name of the step refers to that task.
type Action struct {
	Type        string            `json:"type"`
	Payload     json.RawMessage   `json:"payload,omitempty"`
	Headers     map[string]string `json:"headers,omitempty"`
	Priority    *uint8            `json:"priority,omitempty"`
	OrderingKey json.RawMessage   `json:"ordering_key,omitempty"` // as of [Step]
}

// action returns the description of the tasks of s.
func (s *Step) action() *Action {
	return &Action{s.Type, s.Payload, s.Headers, s.Priority, s.OrderingKey}
}

// Wait is a wait for a signal, or for a time.
type Wait struct {
	Signal  string   `json:"signal,omitempty"`  // its data is the result of the step
	Timeout Duration `json:"timeout,omitempty"` // of Signal: the step fails when it is over; 0 is never
	For     Duration `json:"for,omitempty"`     // in place of Signal: the step is done after this time
}

// OnFailure says what follows from the failure of a step.
type OnFailure string

// The values of OnFailure.
const (
	Fail       OnFailure = "fail"       // the workflow stops what runs, and fails; the default
	Continue   OnFailure = "continue"   // the steps after it run, and may look at how it has ended
	Compensate OnFailure = "compensate" // the workflow stops what runs, undoes what is done, and fails
)

// SkipWith says with which of the steps before it a step is skipped.
type SkipWith string

// The values of SkipWith.
const (
	SkipWithAny  SkipWith = "any"  // the step is skipped if one of them was; the default
	SkipWithAll  SkipWith = "all"  // the step is skipped if all of them were
	SkipWithNone SkipWith = "none" // the step is not skipped with others
)

// Need says how many tasks of a step have to be done. 0 is all.
type Need int

// MarshalJSON implements [json.Marshaler].
func (n Need) MarshalJSON() ([]byte, error) {
	switch n {
	case 0:
		return []byte(`"all"`), nil
	case 1:
		return []byte(`"any"`), nil
	}
	return strconv.AppendInt(nil, int64(n), 10), nil
}

// UnmarshalJSON implements [json.Unmarshaler].
func (n *Need) UnmarshalJSON(text []byte) error {
	switch string(text) {
	case `"all"`:
		*n = 0
		return nil
	case `"any"`:
		*n = 1
		return nil
	}
	number, err := strconv.Atoi(string(text))
	if err != nil || number < 1 {
		return fmt.Errorf("need is %.40s, and all, any or a number from 1 on", text)
	}
	*n = Need(number)
	return nil
}

// of returns how many of count tasks have to be done.
func (n Need) of(count int) int {
	if n == 0 {
		return count
	}
	return int(n)
}

// Duration is a time span, which is text in JSON, such as "36h" or "2d".
type Duration time.Duration

// MarshalJSON implements [json.Marshaler].
func (d Duration) MarshalJSON() ([]byte, error) { return json.Marshal(time.Duration(d).String()) }

// UnmarshalJSON implements [json.Unmarshaler].
func (d *Duration) UnmarshalJSON(data []byte) error {
	var text string
	if err := json.Unmarshal(data, &text); err != nil {
		return fmt.Errorf("%.40s is no duration, which is text such as 90s, 36h or 2d", data)
	}
	if days, ok := strings.CutSuffix(text, "d"); ok {
		if n, err := strconv.ParseUint(days, 10, 16); err == nil {
			*d = Duration(time.Duration(n) * 24 * time.Hour)
			return nil
		}
	}
	read, err := time.ParseDuration(text)
	if err != nil || read < 0 {
		return fmt.Errorf("%.40q is no duration, which is text such as 90s, 36h or 2d", text)
	}
	*d = Duration(read)
	return nil
}

// Parse reads a definition from JSON and checks it.
func Parse(data []byte) (*Definition, error) {
	d := new(Definition)
	if err := decode(data, d); err != nil {
		return nil, err
	}
	if err := d.Check(); err != nil {
		return nil, err
	}
	return d, nil
}

// decode reads one value of JSON, which has no other fields and no name twice.
func decode(data []byte, into any) error {
	if err := checkNames(data); err != nil {
		return err
	}
	in := json.NewDecoder(bytes.NewReader(data))
	in.DisallowUnknownFields()
	if err := in.Decode(into); err != nil {
		return fmt.Errorf("%s", strings.TrimPrefix(err.Error(), "json: "))
	}
	return nil
}

// checkNames returns an error if data is not one value of JSON, or if an object in it has a name twice.
func checkNames(data []byte) error {
	type level struct {
		names map[string]bool // nil for a list
		name  string          // of the value that comes next
		named bool            // the value comes next, and not its name
		items int
	}
	in := json.NewDecoder(bytes.NewReader(data))
	in.UseNumber()
	var open []*level
	place := func() string {
		var at []string
		for _, l := range open {
			if l.names == nil {
				at = append(at, strconv.Itoa(l.items))
			} else {
				at = append(at, l.name)
			}
		}
		return strings.Join(at, ".")
	}
	for {
		token, err := in.Token()
		switch {
		case errors.Is(err, io.EOF) && len(open) == 0 && in.InputOffset() > 0:
			return nil
		case err != nil:
			return fmt.Errorf("it is not JSON: %w", err)
		}
		var top *level
		if len(open) > 0 {
			top = open[len(open)-1]
		}
		if name, isText := token.(string); top != nil && top.names != nil && !top.named && isText {
			top.name, top.named = name, true
			if top.names[name] {
				return fmt.Errorf("%s is given twice", place())
			}
			top.names[name] = true
			continue
		}
		switch token {
		case json.Delim('{'), json.Delim('['):
			if len(open) == MaxDepth {
				return fmt.Errorf("%.200s has more than %d values within each other", place(), MaxDepth)
			}
			one := new(level)
			if token == json.Delim('{') {
				one.names = make(map[string]bool)
			}
			open = append(open, one)
			continue
		case json.Delim('}'), json.Delim(']'):
			open = open[:len(open)-1]
		}
		if len(open) == 0 {
			if _, err := in.Token(); !errors.Is(err, io.EOF) {
				return errors.New("something follows the value")
			}
			return nil
		}
		top = open[len(open)-1]
		top.named = false
		top.items++
	}
}

// Encode returns a definition as JSON, which [Parse] reads.
func Encode(d *Definition) ([]byte, error) { return formatValue(d) }
