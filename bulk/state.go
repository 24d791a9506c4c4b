package bulk

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"time"

	"github.com/taskengine/taskengine/task"
)

// MaxRefused is how many tasks with an outcome of their own a state keeps. The log of the job has all of them.
const MaxRefused = 100

// State is how far a job is: the checkpoint while it runs, and its result then.
type State struct {
	Cursor task.ID   `json:"cursor,omitzero"` // the tasks from here on are done or in the plan, the newest id first
	Begun  time.Time `json:"begun,omitzero"`
	AtEnd  bool      `json:"at_end,omitempty"` // there are no tasks below the cursor

	Plan   Plan      `json:"plan,omitempty"`   // to be changed now
	PlanAt time.Time `json:"plan_at,omitzero"` // when, which becomes the UpdatedAt of these tasks

	Changed int64 `json:"changed"`           // tasks that the job has changed
	Skipped int64 `json:"skipped"`           // that were gone or did not match any more when the job came to them
	Refused int64 `json:"refused"`           // of which the state did not allow it
	Unclear int64 `json:"unclear,omitempty"` // of which the job cannot tell, after a crash, whether it has changed them
	Read    int64 `json:"read"`              // rows that were read to find the tasks

	Reasons []Refusal `json:"reasons,omitempty"` // the first of the refused
	Ended   time.Time `json:"ended,omitzero"`
	Stopped bool      `json:"stopped,omitempty"` // a person has stopped it
}

// Refusal says why a task was not changed.
type Refusal struct {
	Task   task.ID `json:"task"`
	Reason string  `json:"reason"`
}

// Done returns how many tasks the job is through with.
func (s *State) Done() int64 { return s.Changed + s.Skipped + s.Refused + s.Unclear }

// Refuse counts a task that was refused.
func (s *State) Refuse(id task.ID, reason string) {
	s.Refused++
	if len(s.Reasons) < MaxRefused {
		s.Reasons = append(s.Reasons[:len(s.Reasons):len(s.Reasons)], Refusal{id, reason})
	}
}

// Plan is a list of tasks at the versions at which they are changed.
type Plan []task.Ref

const refSize = len(task.ID{}) + 8

// MarshalJSON implements [json.Marshaler].
func (p Plan) MarshalJSON() ([]byte, error) {
	packed := make([]byte, 0, len(p)*refSize)
	for _, r := range p {
		packed = binary.BigEndian.AppendUint64(append(packed, r.ID[:]...), r.Version)
	}
	return json.Marshal(base64.StdEncoding.EncodeToString(packed))
}

// UnmarshalJSON implements [json.Unmarshaler].
func (p *Plan) UnmarshalJSON(data []byte) error {
	var text string
	if err := json.Unmarshal(data, &text); err != nil {
		return err
	}
	packed, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return err
	}
	if len(packed)%refSize != 0 {
		return fmt.Errorf("the plan has %d bytes, which is no multiple of %d", len(packed), refSize)
	}
	*p = nil
	for ; len(packed) > 0; packed = packed[refSize:] {
		*p = append(*p, task.Ref{ID: task.ID(packed[:16]), Version: binary.BigEndian.Uint64(packed[16:])})
	}
	return nil
}

// Encode returns the checkpoint.
func (s *State) Encode() ([]byte, error) {
	data, err := json.Marshal(s)
	if err != nil {
		return nil, fmt.Errorf("write the state of a bulk job: %w", err)
	}
	return data, nil
}

// DecodeState reads a checkpoint, or a result.
func DecodeState(data []byte) (s State, err error) {
	if len(data) == 0 {
		return s, nil
	}
	if err := json.Unmarshal(data, &s); err != nil {
		return s, fmt.Errorf("read the state of a bulk job: %w", err)
	}
	return s, nil
}
