package engine

import (
	"fmt"

	"github.com/taskengine/taskengine/codec"
	"github.com/taskengine/taskengine/engine/task"
)

// contents encodes what tasks carry, and decodes it. Handlers, callers and the checks of sizes see it decoded, and the core,
// the shell and the store do not.
type contents struct{ codec codec.Codec }

// contentsOf returns the contents of a configuration.
func contentsOf(c codec.Codec) (contents, error) {
	if c != nil {
		return contents{c}, nil
	}
	c, err := codec.New(codec.Config{})
	return contents{c}, err
}

func (c contents) encode(typ string, kind codec.Kind, data []byte) ([]byte, error) {
	stored, err := c.codec.Encode(codec.Content{Type: typ, Kind: kind}, data)
	if err != nil {
		return nil, fmt.Errorf("encode the %s: %w", kind, err)
	}
	return stored, nil
}

// encodeRerun encodes what a task has when it runs again.
func (c contents) encodeRerun(typ string, r *task.Rerun) error {
	if r.Payload != nil {
		stored, err := c.encode(typ, codec.Payload, *r.Payload)
		if err != nil {
			return err
		}
		r.Payload = &stored
	}
	if r.Checkpoint != nil {
		stored, err := c.encode(typ, codec.Checkpoint, *r.Checkpoint)
		if err != nil {
			return err
		}
		r.Checkpoint = &stored
	}
	return nil
}

// encodeResult encodes the result of a verdict. A result that cannot be encoded fails the attempt.
func (c contents) encodeResult(typ string, v task.Verdict) task.Verdict {
	if len(v.Result) == 0 {
		return v
	}
	stored, err := c.encode(typ, codec.Result, v.Result)
	if err != nil {
		return task.VerdictOf(nil, task.InDoubt(err))
	}
	v.Result = stored
	return v
}

// decode replaces what t carries, as it is stored, by the data. If a part cannot be decoded, t lacks that part and the
// error says why.
func (c contents) decode(t *task.Task) error {
	payload, failed := c.codec.Decode(codec.Content{Type: t.Type, Kind: codec.Payload}, t.Payload)
	result, err := c.codec.Decode(codec.Content{Type: t.Type, Kind: codec.Result}, t.Result)
	t.Payload, t.Result = payload, result
	if failed == nil {
		failed = err
	}
	if stored := t.Checkpoint(); stored != nil {
		checkpoint, err := c.codec.Decode(codec.Content{Type: t.Type, Kind: codec.Checkpoint}, stored)
		t.Notes = task.NewNotes(t.Progress(), checkpoint)
		if failed == nil {
			failed = err
		}
	}
	return failed
}
