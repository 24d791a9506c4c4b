package workflow

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/taskengine/taskengine/task"
)

// format is the version of specs and states.
const format = 1

// Spec is the payload of a workflow.
type Spec struct {
	Format     int             `json:"format"`
	Definition *Definition     `json:"definition"`
	Input      json.RawMessage `json:"input,omitempty"`
}

// HeaderName is the header of a workflow that has its name.
const HeaderName = "taskengine-workflow"

// Request returns the request of the task that is a workflow with an input, which is JSON; nil is none. The caller may set the other
// fields of the request, such as Key and At, and submits it as any other: by Engine.Submit, in a transaction, or as a child.
func Request(d *Definition, input []byte) (task.Request, error) {
	if err := d.Check(); err != nil {
		return task.Request{}, fmt.Errorf("workflow: %w", err)
	}
	if len(input) > 0 {
		if err := checkNames(input); err != nil {
			return task.Request{}, fmt.Errorf("workflow: the input: %w", err)
		}
	}
	payload, err := formatValue(Spec{Format: format, Definition: d, Input: input})
	if err != nil {
		return task.Request{}, fmt.Errorf("workflow: %w", err)
	}
	r := task.Request{Type: Type, Payload: payload}
	if d.Name != "" {
		r.Headers = map[string]string{HeaderName: d.Name}
	}
	return r, nil
}

// ParseSpec reads the payload of a workflow and checks it.
func ParseSpec(payload []byte) (*Spec, error) {
	s := new(Spec)
	if err := decode(payload, s); err != nil {
		return nil, fmt.Errorf("workflow: %w", err)
	}
	if s.Format != format {
		return nil, fmt.Errorf("workflow: format is %d, and this program knows %d", s.Format, format)
	}
	if err := s.Definition.Check(); err != nil {
		return nil, fmt.Errorf("workflow: definition: %w", err)
	}
	return s, nil
}

// Phase says where a step is.
type Phase string

// The phases of a step.
const (
	Pending   Phase = ""          // it has not begun
	Running   Phase = "running"   // it has begun: its tasks were added, or its wait
	Done      Phase = "done"      // as many of its tasks are done as it needs, or its wait is over
	Failed    Phase = "failed"    // they cannot be any more, or the signal did not come in time
	Cancelled Phase = "cancelled" // it was stopped, because another step has failed
	Skipped   Phase = "skipped"   // it did not begin: its condition did not hold, or steps before it were skipped
)

// State is the checkpoint of a workflow.
type State struct {
	Format  int                   `json:"format"`
	Steps   map[string]*StepState `json:"steps"`
	Ends    int                   `json:"ends,omitempty"` // how many steps have ended, in all
	Failure *Failure              `json:"failure,omitempty"`
	Retries int                   `json:"retries,omitempty"`
}

// StepState is the state of one step.
type StepState struct {
	Phase Phase `json:"phase,omitempty"`
	Tasks
	Began  time.Time       `json:"began,omitzero"`
	Ended  time.Time       `json:"ended,omitzero"`
	Until  time.Time       `json:"until,omitzero"`   // of a wait
	Order  int             `json:"order,omitempty"`  // of its end among those of all steps, from 1 on
	Error  string          `json:"error,omitempty"`  // why it is not done
	Result json.RawMessage `json:"result,omitempty"` // if something refers to it
	Undo   *StepState      `json:"undo,omitempty"`   // its compensation
}

// Tasks are the tasks of a step among the children of the workflow.
type Tasks struct {
	From   uint32 `json:"from,omitempty"` // the index of the first in its set
	Count  uint32 `json:"count,omitempty"`
	Before *Ends  `json:"before,omitempty"` // how those before From have ended; nil if there are none
	Ends          // when the step ended
}

// Ends are how many tasks have ended so.
type Ends struct {
	Done      uint32 `json:"done,omitempty"`
	Failed    uint32 `json:"failed,omitempty"`
	Cancelled uint32 `json:"cancelled,omitempty"`
}

// Failure is the failure of a workflow.
type Failure struct {
	Step  string    `json:"step"`
	Error string    `json:"error"`
	At    time.Time `json:"at"`
	Undo  bool      `json:"undo,omitempty"` // the steps that are done are compensated
}

// ParseState reads the checkpoint of a workflow.
func ParseState(checkpoint []byte) (*State, error) {
	s := &State{Format: format}
	if len(checkpoint) > 0 {
		if err := json.Unmarshal(checkpoint, s); err != nil {
			return nil, fmt.Errorf("workflow: the checkpoint cannot be read: %w", err)
		}
	}
	if s.Format != format {
		return nil, fmt.Errorf("workflow: the checkpoint has the format %d, and this program knows %d", s.Format, format)
	}
	if s.Steps == nil {
		s.Steps = make(map[string]*StepState)
	}
	return s, nil
}

// Encode returns s as it is kept.
func (s *State) Encode() []byte {
	data, err := formatValue(s)
	if err != nil {
		panic(err) // a struct of texts, numbers and JSON
	}
	return data
}

// Set returns the name of the set of children of a step.
func Set(step string) string { return step }

// UndoSet returns the name of the set of children that compensate a step. No step has such a name.
func UndoSet(step string) string { return step + "/compensate" }

// Outcome is the result of a workflow that is done.
type Outcome struct {
	Output  json.RawMessage       `json:"output,omitempty"`
	Steps   map[string]*StepState `json:"steps"` // without their results
	Retries int                   `json:"retries,omitempty"`
}

// ParseOutcome reads the result of a workflow.
func ParseOutcome(result []byte) (*Outcome, error) {
	o := new(Outcome)
	if err := json.Unmarshal(result, o); err != nil {
		return nil, fmt.Errorf("workflow: the result cannot be read: %w", err)
	}
	return o, nil
}

// ErrGone says that a task with a result that a workflow needs was removed.
var ErrGone = errors.New("its task was removed, and its result with it: the retention of tasks of its type that are done is too short")

// Child is a task of a step, as it has ended.
type Child struct {
	ID     task.ID
	State  task.State
	Result []byte
	Error  string
}

// Children reads the children of a workflow.
type Children interface {
	// ID returns the id of a child.
	ID(set string, index uint32) task.ID
	// Child returns a child; [task.ErrNotFound] if it is gone.
	Child(set string, index uint32) (Child, error)
}

// Largest names the step with the largest result, as text.
func (s *State) Largest() string {
	most, text := 0, "no step has a result"
	for name, one := range s.Steps {
		if n := len(one.Result); n > most || n == most && n > 0 && name < text {
			most, text = n, fmt.Sprintf("the result of step %s has %d", name, n)
		}
	}
	return text
}
