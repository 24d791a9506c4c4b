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

// A short page of a list with many entries is often found among the newest rows of all, which are read before more than fewCollected entries are collected.
const (
	fewCollected = 1 << 14
	newestRows   = 2000
	shortPage    = 100 // rows
)

// listAmongNewest looks for a short page among the newest rows of all states. It reports false if they do not fill the page.
func (v *View) listAmongNewest(ctx context.Context, q storage.ListQuery) (page storage.ListPage, done bool, err error) {
	if q.Limit > shortPage {
		return page, false, nil
	}
	q.Scan = min(q.Scan, newestRows)
	page, err = v.listAll(ctx, q)
	return page, len(page.Tasks) == q.Limit, err
}

// listIndexed reads only the records of rows that have an entry for a state of q. Entries that
// are not in the order of ids are collected first, once for all pages of a list. If there are more
// than scan of them, done is false and the result means nothing.
func (v *View) listIndexed(ctx context.Context, q storage.ListQuery) (page storage.ListPage, done bool, err error) {
	from := newest{mark: v.db.pages.mark()}
	few := min(q.Scan, fewCollected)
	from.ids, from.since, from.remembered, err = v.idsBelow(ctx, q.Filter, q.Before, few)
	if errors.Is(err, errTooMany) && !from.remembered && few < q.Scan {
		if page, done, err := v.listAmongNewest(ctx, q); done || err != nil {
			return page, done, err
		}
		from.ids, err = v.collect(ctx, q.Filter, q.Before, q.Scan)
	}
	if err != nil {
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

// listKinds reads only the records of rows in error of the kinds of q, or of the kinds of its types if it has none. done is false if there are too many of
// them.
func (v *View) listKinds(ctx context.Context, q storage.ListQuery) (page storage.ListPage, done bool, err error) {
	var kinds []task.ErrorKind
	var few bool
	if q.Kinds == nil {
		kinds, few, err = v.kindsOfTypes(ctx, q.Types)
	} else {
		kinds, few, err = v.kindsIn(q.Kinds)
	}
	if err != nil || !few {
		return storage.ListPage{}, false, err
	}
	of, err := v.othersOf(q, -1)
	if err != nil {
		return storage.ListPage{}, false, err
	}
	var from newest
	if len(of.sets) > 0 {
		from.has = of.has
	}
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
		if from.has != nil && (len(page.Tasks) >= q.Limit || page.Read >= q.Scan) { // to look for another row may take long
			return page, ctx.Err()
		}
		rest := from.ids
		n := max(1, min(q.Limit-len(page.Tasks), q.Scan-page.Read, listBatch))
		for ids = ids[:0]; len(ids) < n; {
			id, ok, err := from.next()
			if err != nil {
				return storage.ListPage{}, err
			}
			if !ok || !q.Above.IsZero() && id.Compare(q.Above) <= 0 {
				break
			}
			has, err := from.holds(id)
			if err != nil {
				return storage.ListPage{}, err
			}
			if has {
				ids = append(ids, id)
			} else {
				page.Read, page.Next = page.Read+1, id
			}
			if from.has != nil && page.Read+len(ids) >= q.Scan {
				break
			}
		}
		if len(ids) == 0 && from.has != nil && page.Read >= q.Scan {
			continue
		}
		if len(ids) == 0 {
			page.Next = task.ID{}
			return page, nil
		}
		if len(page.Tasks) >= q.Limit || page.Read >= q.Scan {
			if !page.Next.IsZero() && from.again {
				v.keepPage(nextPage{filter: q.Filter, before: page.Next, ids: rest, mark: from.mark, since: from.since})
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

// idsBelow returns the result of collect, or the remembered one of the page before, and the starts of lists that it is good for.
func (v *View) idsBelow(ctx context.Context, f storage.Filter, before task.ID, limit int) (ids []task.ID, since uint64, remembered bool, err error) {
	since = v.db.pages.begunLists()
	if v.rows == nil && !before.IsZero() {
		switch known, ok := v.db.pages.take(f, before, time.Now()); {
		case ok && known.many:
			return nil, known.since, true, errTooMany
		case ok:
			return known.ids, known.since, true, nil
		}
	}
	ids, err = v.collect(ctx, f, before, limit)
	return ids, since, false, err
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
