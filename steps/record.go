package steps

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/taskengine/taskengine/task"
)

// format is the number of the form of a record.
const format = 1

// record is the checkpoint of a task in steps, in JSON.
type record struct {
	Format  int    `json:"steps"`
	Version int    `json:"version"` // of the code with which the task began
	Steps   []step `json:"done"`    // in the order in which they ran; the last one may be a wait that is not over

	// Occurrence is how often the task was due before, if it is a recurring one.
	Occurrence uint64 `json:"occurrence,omitempty"`
}

// step is a step that is done, or a wait.
type step struct {
	Kind   kind            `json:"kind"`
	Name   string          `json:"name"`
	Result json.RawMessage `json:"result,omitempty"` // of kindDo
	Error  *Error          `json:"error,omitempty"`  // of kindDo, in place of a result
	Until  *time.Time      `json:"until,omitempty"`  // of waits for signals; nil is for ever
	Over   bool            `json:"over,omitempty"`   // of waits
	Woken  *woken          `json:"woken,omitempty"`  // of kindWait, when it is over

	Children *Children `json:"children,omitempty"` // of kindChildren: how its children have ended; until then, the counts of the name before the step
}

// woken is the end of a wait for a signal.
type woken struct {
	By   task.WakeBy `json:"by"`
	ID   string      `json:"id,omitempty"`
	Name string      `json:"name,omitempty"`
	At   *time.Time  `json:"at,omitempty"`
	Data []byte      `json:"data,omitempty"`
}

// kind is the kind of a step.
type kind string

const (
	kindDo       kind = "do"
	kindWait     kind = "wait"
	kindSleep    kind = "sleep"
	kindChildren kind = "children"
)

// readRecord returns the record in a checkpoint, an empty one if there is no checkpoint.
func readRecord(checkpoint []byte) (r record, err error) {
	if len(checkpoint) == 0 {
		return record{Format: format}, nil
	}
	if err := json.Unmarshal(checkpoint, &r); err != nil || r.Format == 0 {
		return r, changed("the checkpoint of the task is not one of steps: a handler of another kind has begun it")
	}
	if r.Format != format {
		return r, task.WithClass("steps_newer", fmt.Errorf("steps: the steps of the task have the form %d, and this program reads %d", r.Format, format))
	}
	return r, nil
}

// bytes returns the checkpoint of a record. An error is permanent: the steps do not become smaller.
func (r *record) bytes() ([]byte, error) {
	data, err := json.Marshal(r)
	if err != nil {
		return nil, task.Permanent(err)
	}
	if len(data) > task.MaxCheckpoint {
		return nil, task.Permanent(task.WithClass("steps_too_large", fmt.Errorf(
			"the results of %d steps have %d bytes, of %d allowed: keep large results elsewhere, and have steps return where", len(r.Steps), len(data), task.MaxCheckpoint)))
	}
	return data, nil
}

func wokenOf(w task.Wake) *woken {
	k := &woken{By: w.By}
	if w.By == task.BySignal {
		at := w.Signal.At
		k.ID, k.Name, k.At, k.Data = w.Signal.ID.String(), w.Signal.Name, &at, w.Signal.Data
	}
	return k
}

// wake returns the end of the wait as the task had it.
func (k *woken) wake() (task.Wake, error) {
	w := task.Wake{By: k.By}
	if k.By != task.BySignal {
		return w, nil
	}
	id, err := task.ParseID(k.ID)
	if err != nil || k.At == nil {
		return w, changed("the signal %q of the task cannot be read", k.Name)
	}
	w.Signal = task.Signal{ID: id, Name: k.Name, At: *k.At, Data: k.Data}
	return w, nil
}
