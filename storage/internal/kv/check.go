package kv

import (
	"bytes"
	"errors"
	"fmt"
)

// Check reads the whole store and returns what is wrong with it: every row must have
// exactly its index entries, its unique key and its parts, and each of those a row.
func (v *View) Check() error {
	want, err := v.expected()
	if err != nil {
		return v.db.fail("check", err)
	}
	if err := v.compare(want); err != nil {
		return v.db.fail("check", err)
	}
	return nil
}

// expected returns the keys that the rows ask for, with their values; a nil value may
// be anything.
func (v *View) expected() (want map[string][]byte, err error) {
	want = make(map[string][]byte)
	c, err := v.r.Scan([]byte{prefixRecord}, []byte{prefixRecord + 1})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	var e entries
	for ok := c.First(); ok; ok = c.Next() {
		id, err := idOf(c.Key())
		if err != nil {
			return nil, err
		}
		r, err := decodeRecord(id, c.Value(), &v.db.intern)
		if err != nil {
			return nil, err
		}
		e.of(&r.Task)
		if len(e.ready) > 0 {
			want[string(e.ready)] = bytes.Clone(e.readyValue)
		}
		if len(e.due) > 0 {
			want[string(e.due)] = []byte{}
		}
		if r.Key != "" {
			want[string(appendUniqueKey(nil, r.Type, r.Key))] = bytes.Clone(id[:])
		}
		for _, bit := range [...]fields{farHistory, farPayload, farResult, farCheckpoint} {
			if r.far&bit != 0 {
				want[string(appendIDKey(nil, partPrefix(bit), id))] = nil
			}
		}
	}
	return want, nil
}

// compare reads everything but the records and holds it against want.
func (v *View) compare(want map[string][]byte) (err error) {
	c, err := v.r.Scan(nil, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	for ok := c.First(); ok; ok = c.Next() {
		key := c.Key()
		if key[0] == prefixRecord || key[0] == prefixMeta {
			continue
		}
		value, found := want[string(key)]
		if !found {
			return fmt.Errorf("key %x belongs to no task: %w", key, ErrDamaged)
		}
		if value != nil && !bytes.Equal(value, c.Value()) {
			return fmt.Errorf("key %x has value %x instead of %x: %w", key, c.Value(), value, ErrDamaged)
		}
		delete(want, string(key))
	}
	for key := range want {
		return fmt.Errorf("key %x is missing: %w", key, ErrDamaged)
	}
	return nil
}
