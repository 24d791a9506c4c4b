package kv

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

// Rows in error are in two indexes by the kind of their error: by their ids, for lists, and by when they changed, for the first and the last time
// of a kind. Counters say how many rows there are of a kind, a type and a node. Rows in other states have no entry in any of them. Rows in error without
// a text have entries of the kind noError, so that the counters have all rows in error.

const kindSize = 8

// noError is the kind of a row in error without a text.
const noError task.ErrorKind = 0

func appendKind(b []byte, prefix byte, kind task.ErrorKind) []byte {
	return binary.BigEndian.AppendUint64(append(b, prefix), uint64(kind))
}

func appendKindKey(b []byte, kind task.ErrorKind, id task.ID) []byte {
	return append(appendKind(b, prefixKind, kind), id[:]...)
}

// appendFailedOf returns the prefix of the keys of the rows of a type with errors of a kind.
func appendFailedOf(b []byte, kind task.ErrorKind, typ string) []byte {
	return appendText(appendKind(b, prefixFailed, kind), typ)
}

// ofError sets the entries of a row that is in error.
func (e *entries) ofError(t *task.Task) {
	e.kind, e.failed, e.failures = e.kind[:0], e.failed[:0], e.failures[:0]
	if t.State != task.Error {
		return
	}
	kind := task.KindOfError(t.LastError)
	e.kind = appendKindKey(e.kind, kind, t.ID)
	e.failed = appendTime(appendFailedOf(e.failed, kind, t.Type), t.UpdatedAt.UnixMicro())
	e.failed = append(e.failed, t.ID[:]...)
	e.failures = append(appendText(appendKind(e.failures, prefixFailures, kind), t.Type), t.Node...)
}

// parseKindKey returns the id in a key of the index of kinds.
func parseKindKey(key []byte) (task.ID, error) {
	if len(key) != 1+kindSize+len(task.ID{}) {
		return task.ID{}, fmt.Errorf("key %x: %w", key, ErrDamaged)
	}
	return task.ID(key[1+kindSize:]), nil
}

// kindAt returns the kind in a key that begins with one, and the rest of the key.
func kindAt(key []byte) (task.ErrorKind, []byte, error) {
	if len(key) < 1+kindSize {
		return 0, nil, fmt.Errorf("key %x: %w", key, ErrDamaged)
	}
	return task.ErrorKind(binary.BigEndian.Uint64(key[1:])), key[1+kindSize:], nil
}

// failures is a counter of rows in error, as a transaction sees it.
type failures struct {
	rows    uint64
	changed bool
}

// countFailure adds n to a counter; an empty key is none. putFailures writes it.
func (s *state) countFailure(key []byte, n int) error {
	if len(key) == 0 {
		return nil
	}
	f := s.failed[string(key)]
	if f == nil {
		rows, _, err := getNumber(s.r, key)
		if err != nil {
			return err
		}
		f = &failures{rows: rows}
		s.failed[string(key)] = f
	}
	if n < 0 && f.rows == 0 {
		return fmt.Errorf("the counter %x is below the number of tasks: %w", key, ErrDamaged)
	}
	f.rows, f.changed = f.rows+uint64(n), true
	return nil
}

// putFailures writes the counters that a verb has changed.
func (s *state) putFailures() error {
	for key, f := range s.failed {
		if !f.changed {
			continue
		}
		f.changed = false
		s.key = append(s.key[:0], key...)
		if f.rows == 0 {
			if err := s.rw.Delete(s.key); err != nil {
				return err
			}
			continue
		}
		s.value = appendNumber(s.value[:0], f.rows)
		if err := s.rw.Put(s.key, s.value); err != nil {
			return err
		}
	}
	return nil
}

// mostKinds is how many kinds a list merges at most.
const mostKinds = 64

// kindsIn returns the kinds in some ranges of which rows are in error. It skips from each to the next. few is false if there are more than
// mostKinds.
func (v *View) kindsIn(ranges []task.KindRange) (kinds []task.ErrorKind, few bool, err error) {
	c, err := v.r.Scan([]byte{prefixFailures}, []byte{prefixFailures + 1})
	if err != nil {
		return nil, false, err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	seen := make(map[task.ErrorKind]bool)
	for _, r := range ranges {
		for ok := c.Seek(appendKind(nil, prefixFailures, r.From)); ok; {
			kind, _, err := kindAt(c.Key())
			if err != nil || kind > r.To {
				if err != nil {
					return nil, false, err
				}
				break
			}
			if !seen[kind] {
				if len(kinds) == mostKinds {
					return nil, false, nil
				}
				seen[kind], kinds = true, append(kinds, kind)
			}
			if kind+1 == 0 {
				break
			}
			ok = c.Seek(appendKind(nil, prefixFailures, kind+1))
		}
		if err := c.Err(); err != nil {
			return nil, false, err
		}
	}
	return kinds, true, nil
}

// addKind has n yield the rows in error of a kind below before.
func (n *newest) addKind(r Reader, kind task.ErrorKind, before task.ID) error {
	lower := appendKind(nil, prefixKind, kind)
	upper := []byte{prefixKind + 1}
	switch {
	case !before.IsZero():
		upper = appendKindKey(nil, kind, before)
	case kind+1 != 0:
		upper = appendKind(nil, prefixKind, kind+1)
	}
	return n.addRange(r, lower, upper)
}

// CountKinds implements [storage.KindCounter].
func (v *View) CountKinds(ctx context.Context, types []string, limit int) ([]storage.KindCount, bool, error) {
	kinds, complete, err := v.countKinds(ctx, types, limit)
	if err != nil {
		return nil, false, v.db.fail("count kinds of errors", err)
	}
	return kinds, complete, nil
}

func (v *View) countKinds(ctx context.Context, types []string, limit int) (kinds []storage.KindCount, complete bool, err error) {
	of := storage.Filter{Types: types}
	var prefix []byte // of the counters of the newest element of kinds
	complete = true
	err = v.walk(ctx, []byte{prefixFailures}, []byte{prefixFailures + 1}, func(c Cursor) error {
		key := c.Key()
		if prefix == nil || !bytes.HasPrefix(key, prefix) {
			kind, rest, err := kindAt(key)
			if err != nil {
				return err
			}
			typ, node, err := cutText(rest)
			if err != nil {
				return err
			}
			if kind == noError || !of.Match(task.Error, typ) {
				return nil
			}
			if len(kinds) == limit {
				complete = false
				return errTooMany
			}
			prefix = append(prefix[:0], key[:len(key)-len(node)]...)
			kinds = append(kinds, storage.KindCount{Kind: kind, Type: typ})
		}
		n, err := counterAt(c)
		if err != nil {
			return err
		}
		k := &kinds[len(kinds)-1]
		k.Rows += int64(n)
		if node := string(key[len(prefix):]); node != "" {
			k.Nodes = append(k.Nodes, node)
		}
		return nil
	})
	if err != nil || !complete {
		if errors.Is(err, errTooMany) {
			err = nil
		}
		return nil, complete, err
	}
	return kinds, true, v.timeKinds(ctx, kinds)
}

// countErrors counts the rows in error of f by their counters.
func (v *View) countErrors(ctx context.Context, f storage.Filter, n map[storage.StateType]int64) error {
	return v.walkFailures(ctx, func(_ task.ErrorKind, typ string, rows uint64) {
		if f.Match(task.Error, typ) {
			n[storage.StateType{State: task.Error, Type: typ}] += int64(rows)
		}
	})
}

// walkFailures calls visit for every counter of rows in error.
func (v *View) walkFailures(ctx context.Context, visit func(kind task.ErrorKind, typ string, rows uint64)) error {
	return v.walk(ctx, []byte{prefixFailures}, []byte{prefixFailures + 1}, func(c Cursor) error {
		kind, rest, err := kindAt(c.Key())
		if err != nil {
			return err
		}
		typ, _, err := cutText(rest)
		if err != nil {
			return err
		}
		rows, err := counterAt(c)
		if err != nil {
			return err
		}
		visit(kind, typ, rows)
		return nil
	})
}

// kindsOfTypes returns the kinds of the rows in error of some types. few is false if there are more than mostKinds, or the types have the most of the rows
// in error: then it is better to read these in the order of ids.
func (v *View) kindsOfTypes(ctx context.Context, types []string) (kinds []task.ErrorKind, few bool, err error) {
	of := storage.Filter{Types: types}
	var all, selected uint64
	err = v.walkFailures(ctx, func(kind task.ErrorKind, typ string, rows uint64) {
		if all += rows; !of.Match(task.Error, typ) {
			return
		}
		if selected += rows; len(kinds) == 0 || kinds[len(kinds)-1] != kind {
			kinds = append(kinds, kind)
		}
	})
	return kinds, len(kinds) <= mostKinds && selected <= all/2, err
}

// counterAt reads the counter at a cursor.
func counterAt(c Cursor) (uint64, error) {
	value, err := c.Value()
	if err != nil {
		return 0, err
	}
	d := decoder{rest: value}
	n := d.uvarint()
	if d.bad || len(d.rest) > 0 || n == 0 {
		return 0, fmt.Errorf("value of key %x: %w", c.Key(), ErrDamaged)
	}
	return n, nil
}

// timeKinds sets the times and the samples of kinds.
func (v *View) timeKinds(ctx context.Context, kinds []storage.KindCount) (err error) {
	c, err := v.r.Scan([]byte{prefixFailed}, []byte{prefixFailed + 1})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	for i := range kinds {
		if err := pause(ctx, i); err != nil {
			return err
		}
		k := &kinds[i]
		prefix := appendFailedOf(nil, k.Kind, k.Type)
		if k.First, _, err = failedAt(c, c.Seek(prefix), prefix); err != nil {
			return err
		}
		last := c.Seek(successor(prefix)) && c.Prev()
		if !last && c.Err() == nil {
			last = c.Last()
		}
		if k.Last, k.Sample, err = failedAt(c, last, prefix); err != nil {
			return err
		}
		r, err := v.row(k.Sample)
		if err != nil {
			return err
		}
		if r == nil {
			return fmt.Errorf("task %v: %w", k.Sample, errNoRecord)
		}
		k.Error = r.LastError
	}
	return nil
}

// failedAt reads the entry at a cursor, which must begin with a prefix.
func failedAt(c Cursor, ok bool, prefix []byte) (at time.Time, id task.ID, err error) {
	if err := c.Err(); err != nil {
		return at, id, err
	}
	if !ok || !bytes.HasPrefix(c.Key(), prefix) || len(c.Key()) != len(prefix)+8+len(id) {
		return at, id, fmt.Errorf("tasks in error are counted by %x and have no entry: %w", prefix, ErrDamaged)
	}
	rest := c.Key()[len(prefix):]
	return task.Stamp(time.UnixMicro(timeAt(rest))), task.ID(rest[8:]), nil
}

var _ storage.KindCounter = (*Calls)(nil)

// CountKinds implements [storage.KindCounter].
func (c *Calls) CountKinds(ctx context.Context, types []string, limit int) (kinds []storage.KindCount, complete bool, err error) {
	err = c.view(ctx, "count kinds of errors", func(v *View) (err error) {
		kinds, complete, err = v.CountKinds(ctx, types, limit)
		return err
	})
	return kinds, complete, err
}
