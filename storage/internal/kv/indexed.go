package kv

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

// The most frequent queries are answered from the indexes, so that their cost depends on what
// they find and not on the number of finished tasks. Every Submitted row is in the ready index or, if it is
// Behind, in that of seats, which also has rows of other states.
// Every row in a state of untimed has one entry for its state, with a time or without. Rows that
// have ended in another state are the majority. They are in no index: queries for them read the
// records.

// indexed reports whether every row that f selects has an index entry.
func indexed(f storage.Filter) bool {
	for _, s := range f.States {
		if s != task.Submitted && !untimed(s) {
			return false
		}
	}
	return len(f.States) > 0
}

// untimedOf returns the states of f with rows that the ready index does not have.
func untimedOf(f storage.Filter) []task.State {
	var out []task.State
	for _, s := range task.States() {
		if untimed(s) && slices.Contains(f.States, s) {
			out = append(out, s)
		}
	}
	return out
}

// walk calls visit for every key in [lower, upper), until it returns an error.
func (v *View) walk(ctx context.Context, lower, upper []byte, visit func(Cursor) error) (err error) {
	c, err := v.r.Scan(lower, upper)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	for seen, ok := 0, c.First(); ok; seen, ok = seen+1, c.Next() {
		if err := pause(ctx, seen); err != nil {
			return err
		}
		if err := visit(c); err != nil {
			return err
		}
	}
	return nil
}

// walkReady calls visit for every entry of the ready index that f selects.
func (v *View) walkReady(ctx context.Context, f storage.Filter, visit func(Cursor) error) error {
	if len(f.Types) == 0 {
		return v.walk(ctx, []byte{prefixReady}, []byte{prefixReady + 1}, visit)
	}
	types := slices.Clone(f.Types)
	slices.Sort(types)
	for _, typ := range slices.Compact(types) {
		prefix := appendText([]byte{prefixReady}, typ)
		if err := v.walk(ctx, prefix, successor(prefix), visit); err != nil {
			return err
		}
	}
	return nil
}

// walkBehind calls visit for the seat of every row that is Submitted and Behind.
func (v *View) walkBehind(ctx context.Context, visit func(Cursor) error) error {
	return v.walk(ctx, []byte{prefixSeat}, []byte{prefixSeat + 1}, func(c Cursor) error {
		id, err := idOfEntry(c)
		if err != nil {
			return err
		}
		var buf [idKeySize]byte
		record, found, err := v.r.Get(appendIDKey(buf[:0], prefixRecord, id))
		if err != nil {
			return err
		}
		if !found {
			return fmt.Errorf("task %v has an index entry and no record: %w", id, ErrDamaged)
		}
		s, _, err := peek(id, record, &v.db.intern)
		if err != nil || s != task.Submitted {
			return err
		}
		return visit(c)
	})
}

// idOfEntry reads the id of an entry of the due index, of that of the rows without a time, or of that of seats.
func idOfEntry(c Cursor) (task.ID, error) {
	switch key := c.Key(); key[0] {
	case prefixNever:
		return parseNeverKey(key)
	case prefixSeat:
		value, err := c.Value()
		if err != nil {
			return task.ID{}, err
		}
		return idOfValue(key, value)
	default:
		_, id, err := parseDueKey(key)
		return id, err
	}
}

// idOfReady reads the id in an entry of the ready index.
func idOfReady(c Cursor) (task.ID, error) {
	value, err := c.Value()
	if err != nil {
		return task.ID{}, err
	}
	if len(value) < len(task.ID{}) {
		return task.ID{}, fmt.Errorf("value of key %x: %w", c.Key(), ErrDamaged)
	}
	return task.ID(value[:16]), nil
}
