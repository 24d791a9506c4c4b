package kv

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

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

// countIndexed counts by the index entries of the states of f. For rows that are not Submitted
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

// listIndexed reads only the records of rows that have an entry for a state of q. Entries that
// are not in the order of ids are collected first, once for all pages of a list. If there are more
// than scan of them, done is false and the result means nothing.
func (v *View) listIndexed(ctx context.Context, q storage.ListQuery) (page storage.ListPage, done bool, err error) {
	from := newest{mark: v.db.pages.mark()}
	if from.ids, from.remembered, err = v.idsBelow(ctx, q.Filter, q.Before, q.Scan); err != nil {
		if errors.Is(err, errTooMany) {
			err = nil
		}
		return storage.ListPage{}, false, err
	}
	defer func() { err = errors.Join(err, from.close()) }()
	for _, s := range untimedOf(q.Filter) {
		if err := from.add(v.r, s, q.Before); err != nil {
			return storage.ListPage{}, false, err
		}
	}
	from.again = true
	page, err = v.listNewest(ctx, q, &from)
	page.Index = storage.IndexState
	return page, true, err
}

// listKinds reads only the records of rows in error of some kinds. done is false if there are too many kinds.
func (v *View) listKinds(ctx context.Context, q storage.ListQuery) (page storage.ListPage, done bool, err error) {
	kinds, many, err := v.kindsIn(q.Kinds)
	if err != nil || many {
		return storage.ListPage{}, false, err
	}
	var from newest
	defer func() { err = errors.Join(err, from.close()) }()
	for _, kind := range kinds {
		if err := from.addKind(v.r, kind, q.Before); err != nil {
			return storage.ListPage{}, false, err
		}
	}
	page, err = v.listNewest(ctx, q, &from)
	page.Index = storage.IndexKind
	return page, true, err
}

// listHolders reads only the records of the rows that have a key.
func (v *View) listHolders(ctx context.Context, q storage.ListQuery) (page storage.ListPage, err error) {
	ids, err := v.holdersOf(ctx, q.Types, q.Key)
	if err != nil {
		return page, err
	}
	slices.SortFunc(ids, func(a, b task.ID) int { return b.Compare(a) })
	if !q.Before.IsZero() {
		ids = slices.DeleteFunc(ids, func(id task.ID) bool { return id.Compare(q.Before) >= 0 })
	}
	page, err = v.listNewest(ctx, q, &newest{ids: ids})
	page.Index = storage.IndexKey
	return page, err
}

// listBatch is how many rows of a list are looked up together at most.
const listBatch = 1000

// listNewest reads the records of ids, some together.
func (v *View) listNewest(ctx context.Context, q storage.ListQuery, from *newest) (page storage.ListPage, err error) {
	records, err := v.r.Scan([]byte{prefixRecord}, []byte{prefixRecord + 1})
	if err != nil {
		return page, err
	}
	defer func() { err = errors.Join(err, records.Close()) }()
	var ids []task.ID
	for {
		rest := from.ids
		n := max(1, min(q.Limit-len(page.Tasks), q.Scan-page.Read, listBatch))
		for ids = ids[:0]; len(ids) < n; {
			id, ok, err := from.next()
			if err != nil {
				return storage.ListPage{}, err
			}
			if !ok {
				break
			}
			ids = append(ids, id)
		}
		if len(ids) == 0 {
			page.Next = task.ID{}
			return page, nil
		}
		if len(page.Tasks) >= q.Limit || page.Read >= q.Scan {
			if !page.Next.IsZero() && from.again {
				v.keepPage(nextPage{filter: q.Filter, before: page.Next, ids: rest, mark: from.mark})
			}
			return page, nil
		}
		if err := ctx.Err(); err != nil {
			return storage.ListPage{}, err
		}
		page.Read, page.Next = page.Read+len(ids), ids[len(ids)-1]
		if page.Tasks, err = v.find(records, q, ids, from.remembered, page.Tasks); err != nil {
			return storage.ListPage{}, err
		}
	}
}

// idsBelow returns the result of collect, or the remembered one of the page before.
func (v *View) idsBelow(ctx context.Context, f storage.Filter, before task.ID, limit int) (ids []task.ID, remembered bool, err error) {
	if v.rows == nil && !before.IsZero() {
		switch known, ok := v.db.pages.take(f, before, time.Now()); {
		case ok && known.many:
			return nil, false, errTooMany
		case ok:
			return known.ids, true, nil
		}
	}
	ids, err = v.collect(ctx, f, before, limit)
	return ids, false, err
}

// errNoRecord says that an index entry has no record.
var errNoRecord = fmt.Errorf("an index entry has no record: %w", ErrDamaged)

// find appends the rows with these ids that q selects. It looks them up from the last id to the first, which is the order of their records.
// If remembered is set, rows may have been deleted since.
func (v *View) find(c Cursor, q storage.ListQuery, ids []task.ID, remembered bool, to []*task.Task) ([]*task.Task, error) {
	from := len(to)
	var buf [idKeySize]byte
	for _, id := range slices.Backward(ids) {
		key := appendIDKey(buf[:0], prefixRecord, id)
		found := c.Seek(key) && bytes.Equal(c.Key(), key)
		if err := c.Err(); err != nil {
			return nil, err
		}
		if !found {
			if remembered {
				continue
			}
			return nil, fmt.Errorf("task %v: %w", id, errNoRecord)
		}
		record, err := c.Value()
		if err != nil {
			return nil, err
		}
		t, err := v.listed(q, id, record)
		if err != nil {
			return nil, err
		}
		if t != nil {
			to = append(to, t)
		}
	}
	slices.Reverse(to[from:])
	return to, nil
}

// errTooMany says that there are more entries than are worth sorting.
var errTooMany = errors.New("too many entries")

// collect returns the ids below before of the rows that f may select, newest first, without rows
// that have no time. It reads at most limit entries and returns errTooMany if there are more.
func (v *View) collect(ctx context.Context, f storage.Filter, before task.ID, limit int) (ids []task.ID, err error) {
	read := 0
	take := func(idOf func(Cursor) (task.ID, error)) func(Cursor) error {
		return func(c Cursor) error {
			if read++; read > limit {
				return errTooMany
			}
			id, err := idOf(c)
			if err == nil && (before.IsZero() || id.Compare(before) < 0) {
				ids = append(ids, id)
			}
			return err
		}
	}
	if slices.Contains(f.States, task.Submitted) {
		if err := v.walkReady(ctx, f, take(idOfReady)); err != nil {
			return nil, err
		}
		if err := v.walkBehind(ctx, take(idOfEntry)); err != nil {
			return nil, err
		}
	}
	for _, s := range untimedOf(f) {
		if err := v.walk(ctx, []byte{prefixDue, byte(s)}, []byte{prefixDue, byte(s) + 1}, take(idOfEntry)); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(ids, func(a, b task.ID) int { return b.Compare(a) })
	return ids, nil
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

// newest merges several sequences of ids, each with the newest first. An id is in two of them only if the ids are
// remembered and the row has got another entry since.
type newest struct {
	ids        []task.ID
	remembered bool     // the ids are of an earlier moment
	again      bool     // they are to be remembered for the next page
	mark       uint64   // of pages, for that
	cursors    []Cursor // over an index in the order of ids, each on the id under the same index of heads
	heads      []task.ID
}

// add has n yield the rows without a time that are in this state and below before.
func (n *newest) add(r Reader, s task.State, before task.ID) error {
	upper := []byte{prefixNever, byte(s) + 1}
	if !before.IsZero() {
		upper = appendNeverKey(nil, s, before)
	}
	return n.addRange(r, []byte{prefixNever, byte(s)}, upper)
}

// addRange has n yield the ids of the keys in [lower, upper) of an index in the order of ids.
func (n *newest) addRange(r Reader, lower, upper []byte) error {
	c, err := r.Scan(lower, upper)
	if err != nil {
		return err
	}
	n.cursors, n.heads = append(n.cursors, c), append(n.heads, task.ID{})
	return n.stand(len(n.cursors)-1, c.Last())
}

// stand updates the head of cursor i, which is zero at the end.
func (n *newest) stand(i int, ok bool) (err error) {
	n.heads[i] = task.ID{}
	if !ok {
		return n.cursors[i].Err()
	}
	key := n.cursors[i].Key()
	if key[0] == prefixKind {
		n.heads[i], err = parseKindKey(key)
	} else {
		n.heads[i], err = parseNeverKey(key)
	}
	return err
}

// next removes and returns the newest remaining id, and reports whether there is one.
func (n *newest) next() (id task.ID, ok bool, err error) {
	if len(n.ids) > 0 {
		id, ok = n.ids[0], true
	}
	for _, head := range n.heads {
		if !head.IsZero() && (!ok || head.Compare(id) > 0) {
			id, ok = head, true
		}
	}
	if !ok {
		return id, false, nil
	}
	if len(n.ids) > 0 && n.ids[0] == id {
		n.ids = n.ids[1:]
	}
	for i, head := range n.heads {
		if head == id {
			err = errors.Join(err, n.stand(i, n.cursors[i].Prev()))
		}
	}
	return id, true, err
}

// close closes the cursors and returns their errors.
func (n *newest) close() (err error) {
	for _, c := range n.cursors {
		err = errors.Join(err, c.Close())
	}
	return err
}
