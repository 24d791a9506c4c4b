package kv

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
)

// maxDamages is how many damaged places the error of Check names.
const maxDamages = 20

// damages are the findings of a check so far.
type damages struct {
	kept []error
	more int
}

// add records an error about damage. It returns any other error.
func (d *damages) add(err error) error {
	switch {
	case !errors.Is(err, ErrDamaged):
		return err
	case len(d.kept) < maxDamages:
		d.kept = append(d.kept, err)
	default:
		d.more++
	}
	return nil
}

// Check reads the whole store and returns an error if it is damaged. Every value must be
// readable, by a scan and by a lookup. Every row must have exactly its index entries, its unique
// key and its parts, and each of these must have a row. The error joins one error for each
// damaged place, up to maxDamages.
//
// A store that is not damaged is read once. The damage of another one is found by further readings that keep all keys in memory.
func (v *View) Check() error { return v.check(nil) }

// check is Check, and calls progress with the number of rows that it has read.
func (v *View) check(progress func(rows int64) error) error {
	if ok, err := v.agrees(progress); err == nil && ok {
		return nil
	} else if undamaged(err) != nil {
		return v.db.fail("check", err)
	}
	var found damages
	want, err := v.expected(&found)
	if err == nil {
		err = v.compare(want, &found)
	}
	if err = found.add(err); err != nil {
		return v.db.fail("check", err)
	}
	if found.more > 0 {
		found.kept = append(found.kept, fmt.Errorf("and in %d more places: %w", found.more, ErrDamaged))
	}
	for i, err := range found.kept {
		found.kept[i] = v.db.fail("check", err)
	}
	return errors.Join(found.kept...)
}

// expectation is the keys that must exist because of the rows.
type expectation struct {
	derived
	keys  map[string][]byte // with their values; a nil value may be anything
	whole bool              // every row could be read
}

func (want *expectation) add(key, value []byte) { want.keys[string(key)] = bytes.Clone(value) }

// expected returns the keys that must exist because of the readable rows.
func (v *View) expected(found *damages) (want expectation, err error) {
	want = expectation{derived: newDerived(), keys: make(map[string][]byte), whole: true}
	c, err := v.r.Scan([]byte{prefixRecord}, []byte{prefixRecord + 1})
	if err != nil {
		return want, err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	for ok := c.First(); ok; ok = c.Next() {
		if err := v.expect(c, &want); err != nil {
			want.whole = false
			if err := found.add(err); err != nil {
				return want, err
			}
		}
	}
	if err := v.expectLogs(&want, found); err != nil {
		return want, err
	}
	want.counters(func(key, value []byte) {
		if !want.whole { // the counters count rows that are not known
			value = nil
		}
		want.add(key, value)
	})
	return want, nil
}

// expectLogs adds the keys that must exist because of the pieces of logs.
func (v *View) expectLogs(want *expectation, found *damages) (err error) {
	c, err := v.r.Scan([]byte{prefixLog}, []byte{prefixLog + 1})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	size := uint64(0)
	for ok := c.First(); ok; ok = c.Next() {
		p, _, err := pieceAt(c)
		if err == nil {
			want.add(appendLogTimeKey(nil, p.at, p.task), appendNumber(nil, uint64(p.size)))
			size += uint64(p.size)
			continue
		}
		want.whole = false
		if err := found.add(err); err != nil {
			return err
		}
	}
	if size > 0 {
		want.add(keyLogBytes, appendNumber(nil, size))
	}
	return nil
}

// expect adds the keys of the row at the cursor.
func (v *View) expect(c Cursor, to *expectation) error {
	id, err := idOf(c.Key())
	if err != nil {
		return err
	}
	r, err := v.rowAt(c, id)
	if err != nil {
		return err
	}
	if err := v.ask(c.Key(), nil); err != nil {
		return err
	}
	to.addRow(r, to.add)
	return nil
}

// ask looks up an existing key, as verbs do: a lookup uses other parts of the store than a scan,
// and may miss a key that a scan finds. Unless value is nil, the value must be equal to it.
func (v *View) ask(key, value []byte) error {
	got, found, err := v.r.Get(key)
	switch {
	case err != nil:
		return err
	case !found:
		return fmt.Errorf("%s is there and cannot be found: %w", NameOf(key), ErrDamaged)
	case value != nil && !bytes.Equal(got, value):
		return fmt.Errorf("%s has two values: %w", NameOf(key), ErrDamaged)
	}
	return nil
}

// compare reads everything but the records and compares it with want.
func (v *View) compare(want expectation, found *damages) (err error) {
	c, err := v.r.Scan(nil, nil)
	if err != nil {
		return err
	}
	for ok := c.First(); ok; ok = c.Next() {
		key := c.Key()
		if key[0] == prefixRecord || key[0] == prefixLog {
			continue
		}
		value, err := c.Value()
		if err == nil && (key[0] != prefixMeta || bytes.Equal(key, keyLogBytes)) {
			err = want.judge(key, value)
		}
		if err == nil {
			err = v.ask(key, value)
		}
		delete(want.keys, string(key))
		if err = found.add(err); err != nil {
			return errors.Join(err, c.Close())
		}
	}
	if err := c.Close(); err != nil {
		return err // keys beyond are not known to be missing
	}
	for _, key := range slices.Sorted(maps.Keys(want.keys)) {
		if err := found.add(fmt.Errorf("key %x is missing: %w", key, ErrDamaged)); err != nil {
			return err
		}
	}
	return nil
}

// judge checks a key that is not a record against the expected keys.
func (want expectation) judge(key, value []byte) error {
	expected, known := want.keys[string(key)]
	switch {
	case !known && want.whole:
		return fmt.Errorf("key %x belongs to no task: %w", key, ErrDamaged)
	case known && expected != nil && !bytes.Equal(expected, value):
		return fmt.Errorf("key %x has value %x instead of %x: %w", key, value, expected, ErrDamaged)
	}
	return nil // without the record of its task, the key cannot be checked
}
