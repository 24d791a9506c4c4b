package kv

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

// ListKeys implements [storage.KeyInspector]. It skips from each key to the next, in the index of seats and in the
// table of heads.
func (v *View) ListKeys(ctx context.Context, q storage.KeyQuery) (storage.KeyPage, error) {
	page, err := v.listKeys(ctx, q)
	if err != nil {
		return storage.KeyPage{}, v.db.fail("list keys", err)
	}
	return page, nil
}

func (v *View) listKeys(ctx context.Context, q storage.KeyQuery) (page storage.KeyPage, err error) {
	if err := ctx.Err(); err != nil || q.Limit < 1 || q.Scan < 1 {
		return page, err
	}
	w := keyWalk{view: v, onlySeats: q.Behind}
	defer func() { err = errors.Join(err, w.close()) }()
	if err := w.open(q.After); err != nil {
		return page, err
	}
	for n, last := 0, ""; ; n++ {
		key, ok, err := w.key()
		if err != nil || !ok {
			return page, err
		}
		if len(page.Keys) == q.Limit || n == q.Scan {
			page.Next = last
			return page, nil
		}
		if err := ctx.Err(); err != nil {
			return page, err
		}
		k, err := w.take(key, q.Count)
		if err != nil {
			return page, err
		}
		if last = key; q.Match(&k) {
			page.Keys = append(page.Keys, k)
		}
	}
}

// keyWalk walks over the ordering keys that have a head or a seat.
type keyWalk struct {
	view         *View
	heads, seats Cursor
	onlySeats    bool // whether keys without a seat are left out
	atHead       bool // whether heads is at the head of a key that the walk has not passed
	atSeat       bool // whether seats is at a seat
}

// open begins behind a key.
func (w *keyWalk) open(after string) (err error) {
	if w.heads, err = w.view.r.Scan([]byte{prefixHead}, []byte{prefixHead + 1}); err != nil {
		return err
	}
	if w.seats, err = w.view.r.Scan([]byte{prefixSeat}, []byte{prefixSeat + 1}); err != nil {
		return err
	}
	if after == "" {
		w.atHead, w.atSeat = w.heads.First(), w.seats.First()
	} else {
		w.atHead = w.heads.Seek(append(appendHeadKey(nil, after), 0))
		w.atSeat = w.seats.Seek(successor(appendKeyOfSeats(nil, after)))
	}
	return w.err()
}

func (w *keyWalk) err() error { return cmp.Or(w.heads.Err(), w.seats.Err()) }

func (w *keyWalk) close() (err error) {
	for _, c := range []Cursor{w.heads, w.seats} {
		if c != nil {
			err = errors.Join(err, c.Close())
		}
	}
	return err
}

// key returns the key that the walk is at; false at the end.
func (w *keyWalk) key() (key string, ok bool, err error) {
	if err := w.err(); err != nil {
		return "", false, err
	}
	if w.onlySeats && !w.atSeat {
		return "", false, nil
	}
	if w.atHead && !w.onlySeats {
		key = string(w.heads.Key()[1:])
	}
	if w.atSeat {
		seated, _, err := cutText(w.seats.Key()[1:])
		if err != nil {
			return "", false, err
		}
		if !w.atHead || w.onlySeats || seated < key {
			key = seated
		}
	}
	if w.onlySeats {
		w.atHead = w.heads.Seek(appendHeadKey(nil, key))
	}
	return key, w.atHead || w.atSeat, nil
}

// take reads the key that the walk is at, counts at most count rows behind its head, and goes on to the next key.
func (w *keyWalk) take(key string, count int) (k storage.KeyOrder, err error) {
	k.Key = key
	if w.atHead && string(w.heads.Key()[1:]) == key {
		value, err := w.heads.Value()
		if err != nil {
			return k, err
		}
		id, err := idOfValue(w.heads.Key(), value)
		if err != nil {
			return k, err
		}
		if k.Head, err = w.view.member(id); err != nil {
			return k, err
		}
		k.Include(k.Head.ReadyAt)
		w.atHead = w.heads.Next()
	}
	prefix := appendKeyOfSeats(nil, key)
	for has(w.atSeat, w.seats, prefix) {
		if k.Behind == 0 && !k.More {
			seat, err := seatOf(w.seats.Key(), len(prefix))
			if err != nil {
				return k, err
			}
			k.Include(task.Stamp(time.UnixMicro(seat.ReadyAt)))
		}
		if k.Behind >= count {
			k.More, w.atSeat = true, w.seats.Seek(successor(prefix))
			break
		}
		k.Behind++
		w.atSeat = w.seats.Next()
	}
	return k, w.err()
}

// has reports whether a cursor is at a key that begins with a prefix.
func has(at bool, c Cursor, prefix []byte) bool {
	return at && len(c.Key()) >= len(prefix) && string(c.Key()[:len(prefix)]) == string(prefix)
}

// seatOf returns the seat in a key of the index of seats, given the length of the part for the ordering key.
func seatOf(key []byte, prefix int) (s task.Seat, err error) {
	if len(key) != prefix+seatSize {
		return s, fmt.Errorf("key %x: %w", key, ErrDamaged)
	}
	return task.Seat{ReadyAt: timeAt(key[prefix:]), Seq: binary.BigEndian.Uint64(key[prefix+8:])}, nil
}

// member returns a row that takes part in the order of its key, as lists have it.
func (v *View) member(id task.ID) (*task.Task, error) {
	record, found, err := v.r.Get(appendIDKey(nil, prefixRecord, id))
	if err != nil {
		return nil, err
	}
	if !found {
		return nil, fmt.Errorf("task %v has a seat and does not exist: %w", id, ErrDamaged)
	}
	return v.listed(storage.ListQuery{}, id, record)
}

// ListKey implements [storage.KeyInspector].
func (v *View) ListKey(ctx context.Context, key string, after *task.Seat, limit int) (storage.KeyRows, error) {
	rows, err := v.listKey(ctx, key, after, limit)
	if err != nil {
		return storage.KeyRows{}, v.db.fail("list a key", err)
	}
	return rows, nil
}

func (v *View) listKey(ctx context.Context, key string, after *task.Seat, limit int) (rows storage.KeyRows, err error) {
	if err := ctx.Err(); err != nil {
		return rows, err
	}
	id, err := v.headID(key)
	if err != nil {
		return rows, err
	}
	if !id.IsZero() {
		if rows.Head, err = v.member(id); err != nil {
			return rows, err
		}
	}
	prefix := appendKeyOfSeats(nil, key)
	lower := prefix
	if after != nil {
		lower = append(appendSeat(appendKeyOfSeats(nil, key), *after), 0)
	}
	c, err := v.r.Scan(lower, successor(prefix))
	if err != nil {
		return rows, err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	for ok := c.First(); ok; ok = c.Next() {
		if len(rows.Behind) >= limit {
			rows.More = true
			break
		}
		value, err := c.Value()
		if err != nil {
			return rows, err
		}
		if id, err = idOfValue(c.Key(), value); err != nil {
			return rows, err
		}
		t, err := v.member(id)
		if err != nil {
			return rows, err
		}
		rows.Behind = append(rows.Behind, t)
	}
	return rows, c.Err()
}

// ListKeys implements [storage.KeyInspector].
func (c *Calls) ListKeys(ctx context.Context, q storage.KeyQuery) (storage.KeyPage, error) {
	return query(ctx, c, "list keys", func(v *View) (storage.KeyPage, error) { return v.ListKeys(ctx, q) })
}

// ListKey implements [storage.KeyInspector].
func (c *Calls) ListKey(ctx context.Context, key string, after *task.Seat, limit int) (storage.KeyRows, error) {
	return query(ctx, c, "list a key", func(v *View) (storage.KeyRows, error) { return v.ListKey(ctx, key, after, limit) })
}
