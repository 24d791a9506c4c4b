package engine

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"

	"github.com/taskengine/taskengine/codec"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/task"
)

// contents encodes and decodes the contents of tasks. Handlers, callers and the checks of sizes see them decoded, and the core,
// the shell and the store do not.
type contents struct {
	codec codec.Codec
	keyed codec.Keyed // codec, if its keys change; otherwise nil
	types map[string]policy.Type
}

// contentsOf returns the contents of a configuration.
func contentsOf(c *Config) (contents, error) {
	out := contents{codec: c.Codec, types: c.Policies.Types}
	if out.codec == nil {
		var err error
		if out.codec, err = codec.New(codec.Config{}); err != nil {
			return contents{}, err
		}
	}
	out.keyed, _ = out.codec.(codec.Keyed)
	return out, nil
}

// maxUnknown limits the decompressed data of a type that is not configured here, in bytes.
const maxUnknown = policy.LargestResult

// open decodes the stored form of a kind of data of a type.
func (c contents) open(typ string, kind codec.Kind, stored []byte) ([]byte, error) {
	most := maxUnknown
	switch p, isKnown := c.types[typ]; {
	case kind == codec.Checkpoint:
		most = task.MaxCheckpoint
	case !isKnown:
	case kind == codec.Payload || kind == codec.Signal:
		most = p.MaxPayload
	case kind == codec.Result:
		most = p.ResultLimit()
	}
	return c.codec.Decode(codec.Content{Type: typ, Kind: kind, Max: most}, stored)
}

// payload returns the payload of a stored row.
func (c contents) payload(t *task.Task) ([]byte, error) {
	return c.open(t.Type, codec.Payload, t.Payload)
}

func (c contents) encode(typ string, kind codec.Kind, data []byte) ([]byte, error) {
	stored, err := c.codec.Encode(codec.Content{Type: typ, Kind: kind}, data)
	if err != nil {
		return nil, fmt.Errorf("encode the %s: %w", kind, err)
	}
	return stored, nil
}

// isOpen reports whether anybody who reads the store can read data, which is stored so.
func (c contents) isOpen(stored, data []byte) bool {
	_, isOwn := c.codec.(*codec.Envelope)
	return bytes.Equal(stored, data) || isOwn && codec.KeyOf(stored) == ""
}

// encodeRerun encodes the contents of a task that runs again.
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

// decode replaces the stored contents of t by the data. If a part cannot be decoded, t lacks that part and the
// error says why.
func (c contents) decode(t *task.Task) error {
	payload, failed := c.open(t.Type, codec.Payload, t.Payload)
	result, err := c.open(t.Type, codec.Result, t.Result)
	t.Payload, t.Result = payload, result
	if failed == nil {
		failed = err
	}
	if stored := t.Checkpoint(); stored != nil {
		checkpoint, err := c.open(t.Type, codec.Checkpoint, stored)
		t.Notes = task.NewNotes(t.Progress(), checkpoint)
		if failed == nil {
			failed = err
		}
	}
	if t.Signals != nil {
		signals := *t.Signals
		signals.Wake.Signal.Data, err = c.open(t.Type, codec.Signal, signals.Wake.Signal.Data)
		signals.Kept = slices.Clone(signals.Kept)
		for i := range signals.Kept {
			var broken error
			signals.Kept[i].Data, broken = c.open(t.Type, codec.Signal, signals.Kept[i].Data)
			err = cmp.Or(err, broken)
		}
		t.Signals, failed = &signals, cmp.Or(failed, err)
	}
	return failed
}

// begin decodes the contents of t for its handler. again has the parts to store again, because another key encrypts now;
// nil if there are none.
func (c contents) begin(t *task.Task) (again *task.Reencoded, err error) {
	stored := *t
	if err := c.decode(t); err != nil {
		return nil, err
	}
	return c.reencode(&stored), nil
}

// reencode returns the payload, the checkpoint and the signals of a stored row as they are to be stored now, as far as they are
// encrypted otherwise and can be decoded; nil if there is nothing to do.
func (c contents) reencode(t *task.Task) *task.Reencoded {
	if c.keyed == nil {
		return nil
	}
	signals := c.reencodeSignals(t)
	if signals == nil && c.keyed.IsCurrent(t.Payload) && c.keyed.IsCurrent(t.Checkpoint()) {
		return nil
	}
	return &task.Reencoded{
		Payload: c.anew(t.Type, codec.Payload, t.Payload), Checkpoint: c.anew(t.Type, codec.Checkpoint, t.Checkpoint()), Signals: signals,
	}
}

// reencodeSignals is reencode for the data of signals, by their IDs.
func (c contents) reencodeSignals(t *task.Task) (again map[task.ID][]byte) {
	if t.Signals == nil {
		return nil
	}
	add := func(s *task.Signal) {
		data := c.anew(t.Type, codec.Signal, s.Data)
		if data == nil {
			return
		}
		if again == nil {
			again = make(map[task.ID][]byte)
		}
		again[s.ID] = *data
	}
	add(&t.Signals.Wake.Signal)
	for i := range t.Signals.Kept {
		add(&t.Signals.Kept[i])
	}
	return again
}

// anew is reencode for a part of a row.
func (c contents) anew(typ string, kind codec.Kind, stored []byte) *[]byte {
	if c.keyed.IsCurrent(stored) {
		return nil
	}
	data, err := c.open(typ, kind, stored)
	if err != nil {
		return nil // it stays as it is
	}
	again, err := c.encode(typ, kind, bytes.Clone(data))
	if err != nil {
		return nil
	}
	return &again
}
