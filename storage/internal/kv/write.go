package kv

import (
	"bytes"
	"maps"

	"github.com/taskengine/taskengine/task"
)

// putRecord writes the record of r.
func (s *state) putRecord(r *row) error {
	s.key = appendIDKey(s.key[:0], prefixRecord, r.ID)
	s.value = appendRecord(s.value[:0], r)
	return s.rw.Put(s.key, s.value)
}

// putEntries writes the entries of a row that had none.
func (s *state) putEntries() error {
	if len(s.is.ready) > 0 {
		if err := s.rw.Put(s.is.ready, s.is.readyValue); err != nil {
			return err
		}
	}
	if len(s.is.seat) > 0 {
		if err := s.rw.Put(s.is.seat, s.is.id[:]); err != nil {
			return err
		}
	}
	for _, key := range [...][]byte{s.is.due, s.is.kind, s.is.failed} {
		if len(key) > 0 {
			if err := s.rw.Put(key, nil); err != nil {
				return err
			}
		}
	}
	for keys := s.is.search; len(keys) > 0; keys = keys[searchKeySize:] {
		if err := s.rw.Put(keys[:searchKeySize], nil); err != nil {
			return err
		}
	}
	return s.countFailure(s.is.failures, 1)
}

// dropEntries removes the entries that a row had.
func (s *state) dropEntries() error {
	if len(s.was.ready) > 0 {
		if err := s.rw.DeleteOnce(s.was.ready); err != nil {
			return err
		}
	}
	if len(s.was.seat) > 0 {
		if err := s.rw.DeleteOnce(s.was.seat); err != nil {
			return err
		}
	}
	for _, key := range [...][]byte{s.was.due, s.was.kind, s.was.failed} {
		if len(key) > 0 {
			if err := s.rw.DeleteOnce(key); err != nil {
				return err
			}
		}
	}
	for keys := s.was.search; len(keys) > 0; keys = keys[searchKeySize:] {
		if err := s.rw.DeleteOnce(keys[:searchKeySize]); err != nil {
			return err
		}
	}
	return s.countFailure(s.was.failures, -1)
}

// moveEntries replaces the former entries of a row by its present ones. It does not write an
// unchanged entry again: DeleteOnce depends on that. A ready entry always changes, since no change
// of a Submitted row that is not Behind leaves it so.
func (s *state) moveEntries() error {
	withoutEqual(&s.was.seat, &s.is.seat)
	withoutEqual(&s.was.due, &s.is.due)
	withoutEqual(&s.was.kind, &s.is.kind)
	withoutEqual(&s.was.failed, &s.is.failed)
	withoutCommon(&s.was.search, &s.is.search)
	if err := s.dropEntries(); err != nil {
		return err
	}
	return s.putEntries()
}

// withoutEqual removes a key that a row had and has.
func withoutEqual(was, is *[]byte) {
	if bytes.Equal(*was, *is) {
		*was, *is = (*was)[:0], (*is)[:0]
	}
}

// partPrefix returns the table of a part with a key of its own.
func partPrefix(bit fields) byte {
	switch bit {
	case farHistory:
		return prefixHistory
	case farPayload:
		return prefixPayload
	case farCheckpoint:
		return prefixCheckpoint
	case farSignalData:
		return prefixSignals
	case farChildren:
		return prefixChildren
	default:
		return prefixResult
	}
}

// putPart keeps a small part in the record, as a copy, and writes a large one under a key of its
// own.
func (s *state) putPart(r *row, bit fields, part *[]byte) error {
	if len(*part) > InlineSize {
		err := s.putFar(r, bit, *part)
		*part = nil
		return err
	}
	*part = append([]byte(nil), *part...)
	return s.recall(r, bit)
}

// putCheckpoint keeps the checkpoint of r in the record or writes it under a key of its own.
func (s *state) putCheckpoint(r *row) error {
	checkpoint := r.Checkpoint()
	err := s.putPart(r, farCheckpoint, &checkpoint)
	r.Notes = task.NewNotes(r.Progress(), checkpoint)
	return err
}

// recall removes the key of its own that a part had, if it had one.
func (s *state) recall(r *row, bit fields) error {
	if r.far&bit == 0 {
		return nil
	}
	r.far &^= bit
	return s.dropPart(r, bit)
}

// putHistory makes h the history of r, in its record or under a key of its own.
func (s *state) putHistory(r *row, h []task.Attempt) error {
	r.History = h
	if len(h) == 0 {
		return s.recall(r, farHistory)
	}
	s.value = appendHistory(s.value[:0], r.base(), h)
	if len(s.value) > InlineSize {
		r.History = nil
		return s.putFar(r, farHistory, s.value)
	}
	r.History = append([]task.Attempt(nil), h...)
	return s.recall(r, farHistory)
}

func (s *state) putFar(r *row, bit fields, value []byte) error {
	r.far |= bit
	s.key = appendIDKey(s.key[:0], partPrefix(bit), r.ID)
	s.parts[string(s.key)] = bytes.Clone(value)
	return s.rw.Put(s.key, value)
}

func (s *state) dropPart(r *row, bit fields) error {
	s.key = appendIDKey(s.key[:0], partPrefix(bit), r.ID)
	s.parts[string(s.key)] = nil
	return s.rw.Delete(s.key)
}

func cloneHeaders(h map[string]string) map[string]string {
	if len(h) == 0 {
		return nil
	}
	return maps.Clone(h)
}

// stamp truncates the times of t to microseconds, as a record keeps them.
func stamp(t *task.Task) {
	t.CreatedAt, t.ReadyAt, t.NextEventAt = task.Stamp(t.CreatedAt), task.Stamp(t.ReadyAt), task.Stamp(t.NextEventAt)
	t.ExpiresAt, t.StartedAt, t.UpdatedAt = task.Stamp(t.ExpiresAt), task.Stamp(t.StartedAt), task.Stamp(t.UpdatedAt)
	if p := t.Progress(); p.At != task.Stamp(p.At) {
		p.At = task.Stamp(p.At)
		t.Notes = task.NewNotes(p, t.Checkpoint())
	}
}
