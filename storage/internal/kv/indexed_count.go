package kv

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

// countIndexed counts by the index entries of the states of f, and rows in error by their counters. For rows that are Waiting or Processing
// it reads the records, which have the types.
func (v *View) countIndexed(ctx context.Context, f storage.Filter, n map[storage.StateType]int64) error {
	if slices.Contains(f.States, task.Submitted) {
		if err := v.countReady(ctx, f, n); err != nil {
			return err
		}
		behind := storage.Filter{States: []task.State{task.Submitted}, Types: f.Types}
		if err := v.countEntries(ctx, behind, []byte{prefixSeat}, []byte{prefixSeat + 1}, n); err != nil {
			return err
		}
	}
	for _, s := range untimedOf(f) {
		if s == task.Error {
			if err := v.countErrors(ctx, f, n); err != nil {
				return err
			}
			continue
		}
		for _, prefix := range [...]byte{prefixDue, prefixNever} {
			if err := v.countEntries(ctx, f, []byte{prefix, byte(s)}, []byte{prefix, byte(s) + 1}, n); err != nil {
				return err
			}
		}
	}
	return nil
}

func (v *View) countReady(ctx context.Context, f storage.Filter, n map[storage.StateType]int64) error {
	var prefix []byte // of the queue that was met last
	var counts storage.StateType
	return v.walkReady(ctx, f, func(c Cursor) error {
		key := c.Key()
		if prefix == nil || !bytes.HasPrefix(key, prefix) {
			queue, part, err := queueOf(key)
			if err != nil {
				return err
			}
			prefix = append(prefix[:0], part...)
			counts = storage.StateType{State: task.Submitted, Type: queue.Type}
		}
		n[counts]++
		return nil
	})
}

// countBatch is how many rows are looked up together, in the order of their records: the closer
// together the records are, the less each costs. The ids take half a megabyte.
const countBatch = 1 << 15

// countEntries counts the rows that f selects and that have an entry between two keys of the due index, of that
// of the rows without a time, or of that of seats.
func (v *View) countEntries(ctx context.Context, f storage.Filter, lower, upper []byte, n map[storage.StateType]int64) (err error) {
	records, err := v.r.Scan([]byte{prefixRecord}, []byte{prefixRecord + 1})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, records.Close()) }()
	var batch []task.ID
	err = v.walk(ctx, lower, upper, func(c Cursor) error {
		id, err := idOfEntry(c)
		if err != nil {
			return err
		}
		if batch = append(batch, id); len(batch) < countBatch {
			return nil
		}
		err = v.countRecords(records, batch, f, n)
		batch = batch[:0]
		return err
	})
	if err != nil {
		return err
	}
	return v.countRecords(records, batch, f, n)
}

// countRecords counts the rows with these ids, which it sorts.
func (v *View) countRecords(c Cursor, ids []task.ID, f storage.Filter, n map[storage.StateType]int64) error {
	slices.SortFunc(ids, task.ID.Compare)
	var buf [idKeySize]byte
	for _, id := range ids {
		key := appendIDKey(buf[:0], prefixRecord, id)
		found := c.Seek(key) && bytes.Equal(c.Key(), key)
		if err := c.Err(); err != nil {
			return err
		}
		if !found {
			return fmt.Errorf("task %v has an index entry and no record: %w", id, ErrDamaged)
		}
		if err := v.countAt(c, id, f, n); err != nil {
			return err
		}
	}
	return nil
}
