package kv

import (
	"context"
	"errors"
	"time"

	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

// List implements [storage.Inspector].
func (v *View) List(ctx context.Context, q storage.ListQuery) (storage.ListPage, error) {
	page, err := v.list(ctx, q)
	if err != nil {
		return storage.ListPage{}, v.db.fail("list", err)
	}
	return page, nil
}

func (v *View) list(ctx context.Context, q storage.ListQuery) (storage.ListPage, error) {
	if q.Key != "" {
		return v.listHolders(ctx, q)
	}
	if q.Before.IsZero() {
		f := q.Filter
		if q.Kinds != nil {
			f.States = []task.State{task.Error}
		}
		v.db.pages.start(f)
	}
	if len(q.Search) > 0 {
		set, err := v.searchPlan(ctx, &q)
		if err != nil {
			return storage.ListPage{}, err
		}
		if set >= 0 {
			return v.listSearch(ctx, q, set)
		}
	}
	if q.Kinds != nil || len(q.Types) > 0 && len(q.States) == 1 && q.States[0] == task.Error {
		if page, done, err := v.listKinds(ctx, q); done || err != nil {
			return page, err
		}
		q.States = []task.State{task.Error}
	}
	if !indexed(q.Filter) {
		return v.listAll(ctx, q)
	}
	since := v.db.pages.begunLists()
	page, done, err := v.listIndexed(ctx, q)
	if done || err != nil {
		return page, err
	}
	page, err = v.listAll(ctx, q)
	if err == nil && !page.Next.IsZero() {
		v.keepPage(nextPage{filter: q.Filter, before: page.Next, many: true, since: since})
	}
	return page, err
}

// keepPage remembers the next page of a list. A transaction sees rows of its own, of which other readers know nothing.
func (v *View) keepPage(n nextPage) {
	if v.rows == nil {
		n.at = time.Now()
		v.db.pages.keep(n)
	}
}

// listAll walks over the records.
func (v *View) listAll(ctx context.Context, q storage.ListQuery) (page storage.ListPage, err error) {
	upper := []byte{prefixRecord + 1}
	if !q.Before.IsZero() {
		upper = appendIDKey(nil, prefixRecord, q.Before)
	}
	lower := []byte{prefixRecord}
	if !q.Above.IsZero() {
		lower = append(appendIDKey(nil, prefixRecord, q.Above), 0)
	}
	c, err := v.r.Scan(lower, upper)
	if err != nil {
		return storage.ListPage{}, err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	for ok := c.Last(); ok; ok = c.Prev() {
		if len(page.Tasks) >= q.Limit || page.Read >= q.Scan {
			return page, nil
		}
		if err := ctx.Err(); err != nil {
			return storage.ListPage{}, err
		}
		page.Read++
		if page.Next, err = idOf(c.Key()); err != nil {
			return storage.ListPage{}, err
		}
		record, err := c.Value()
		if err != nil {
			return storage.ListPage{}, err
		}
		t, err := v.listed(q, page.Next, record)
		if err != nil {
			return storage.ListPage{}, err
		}
		if t != nil {
			page.Tasks = append(page.Tasks, t)
		}
	}
	page.Next = task.ID{}
	return page, nil
}

// listed returns the row with this record as lists have it, or nil if q does not select it.
func (v *View) listed(q storage.ListQuery, id task.ID, record []byte) (*task.Task, error) {
	s, typ, err := peek(id, record, &v.db.intern)
	if err != nil || !q.Match(s, typ) {
		return nil, err
	}
	r, err := decodeRecord(id, record, &v.db.intern)
	if err != nil || !q.SelectsRow(&r.Task) {
		return nil, err
	}
	if r.far&farHistory != 0 {
		if r.History, err = v.farHistory(r); err != nil {
			return nil, err
		}
	}
	r.Payload, r.Result, r.Notes = nil, nil, task.NewNotes(r.Progress(), nil)
	r.Signals, r.Children = r.Signals.Listed(), nil
	if q.Where != nil && !q.Where(&r.Task) {
		return nil, nil
	}
	return &r.Task, nil
}

// Count implements [storage.Inspector].
func (v *View) Count(ctx context.Context, f storage.Filter) (map[storage.StateType]int64, error) {
	n := make(map[storage.StateType]int64)
	count := v.countAll
	if indexed(f) {
		count = v.countIndexed
	}
	if err := count(ctx, f, n); err != nil {
		return nil, v.db.fail("count", err)
	}
	return n, nil
}

// countAll reads every record.
func (v *View) countAll(ctx context.Context, f storage.Filter, n map[storage.StateType]int64) (err error) {
	c, err := v.r.Scan([]byte{prefixRecord}, []byte{prefixRecord + 1})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	for seen, ok := 0, c.First(); ok; seen, ok = seen+1, c.Next() {
		if err := pause(ctx, seen); err != nil {
			return err
		}
		id, err := idOf(c.Key())
		if err != nil {
			return err
		}
		if err := v.countAt(c, id, f, n); err != nil {
			return err
		}
	}
	return nil
}

// countAt counts the row at the cursor in n if f selects it.
func (v *View) countAt(c Cursor, id task.ID, f storage.Filter, n map[storage.StateType]int64) error {
	s, typ, err := v.peekAt(c, id)
	if err != nil {
		return err
	}
	if f.Match(s, typ) {
		n[storage.StateType{State: s, Type: typ}]++
	}
	return nil
}

// pause checks ctx at every 1024th key of a scan.
func pause(ctx context.Context, seen int) error {
	if seen%1024 != 0 {
		return nil
	}
	return ctx.Err()
}
