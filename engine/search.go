package engine

import (
	"context"
	"errors"
	"slices"

	"github.com/taskengine/taskengine/filter"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

// wholeScan is how many rows Search reads with payload and result at most for one page.
const wholeScan = 5_000

// Found is a page of the tasks that a filter selects.
type Found struct {
	Tasks []*task.Task // the newest first, without payload and result
	Next  task.ID      // where to go on, as before; zero at the end
	Read  int          // how many rows were read at least to find them
	Index string       // the field by which an index found the rows, see [storage.ListPage]; "" if rows of all states were read
	Total int64        // of the first page: how many rows all pages go through; zero if the store does not count them, or an index has just the rows that the filter selects
}

// Search returns at most limit tasks that f selects, the newest first. They are older than the task before; if before is
// zero, Search begins with the newest task. A page may be short, or empty, before the end.
//
// If f names ids, only these rows are read. If it names only states of tasks that have not ended, rows of other states are
// not read by stores that keep tasks on disk, see [storage.Inspector]. Each row that f selects by its other terms is read
// whole if f has a term of the payload or the result; rows that cannot be decoded are not found by such a term.
func (e *Engine) Search(ctx context.Context, f filter.Filter, before task.ID, limit int) (found Found, err error) {
	s, ok := e.store.(storage.Inspector)
	if !ok {
		return Found{}, ErrUnsupported
	}
	bounds, ok := f.Bounds()
	switch {
	case !ok || limit < 1:
		return Found{}, nil
	case bounds.IDs != nil:
		return e.searchIDs(ctx, f, bounds.IDs, before, limit)
	}
	q := queryOf(f, bounds)
	q.Before, q.Limit = before, limit
	if q.Search, q.Above, err = e.searchSets(ctx, f, bounds.Types, before); err != nil {
		return Found{}, err
	}
	if f.OfRows() {
		var page storage.ListPage
		page, err = s.List(ctx, q)
		found = Found{Tasks: page.Tasks, Next: page.Next, Read: page.Read, Index: page.Index}
	} else {
		found, err = e.searchWhole(ctx, s, f, q)
	}
	if err != nil {
		return Found{}, err
	}
	if found.Next.IsZero() && !q.Above.IsZero() { // then come the rows whose values are not known
		found.Next = successorOf(q.Above)
	}
	if before.IsZero() && q.Search == nil {
		found.Total, err = e.total(ctx, bounds, found.Index)
	}
	return found, err
}

// total returns how many rows a search goes through that has read rows within bounds by an index. It is zero if the store does not count them without
// reading them, or if the index has just the rows that the filter selects.
func (e *Engine) total(ctx context.Context, b filter.Bounds, index string) (n int64, err error) {
	var states []task.State
	var types []string
	switch index {
	case storage.IndexID, storage.IndexKey:
		return 0, nil
	case storage.IndexState:
		states = b.States
	case storage.IndexKind:
		states = []task.State{task.Error}
	case storage.IndexType:
		types = b.Types
	}
	if b.Exact && index != "" && (b.Types == nil || index == storage.IndexType && b.States == nil) {
		return 0, nil
	}
	if s, ok := e.store.(storage.LiveCounter); ok && index != storage.IndexKind {
		counts, err := s.Count(ctx, storage.Filter{States: states, Types: types})
		for _, some := range counts {
			n += some
		}
		return n, err
	}
	if len(states) != 1 || states[0] != task.Error {
		return 0, nil
	}
	kinds, known, err := e.countKinds(ctx, nil, b.Kinds)
	if err != nil || !known {
		return 0, err
	}
	var ofTypes []task.ErrorKind // of which the store reads the rows of all types
	for _, k := range kinds {
		if slices.Contains(b.Types, k.Type) {
			ofTypes = append(ofTypes, k.Kind)
		}
	}
	for _, k := range kinds {
		if index != storage.IndexKind || b.Kinds != nil || slices.Contains(ofTypes, k.Kind) {
			n += k.Rows
		}
	}
	return n, nil
}

// mostSearched is how many search values a list merges at most.
const mostSearched = 64

// searchSets returns the conditions of f on tasks of some types that an index of search values serves, and above which id it has all rows. There are
// none if the page before an id has only rows below.
func (e *Engine) searchSets(ctx context.Context, f filter.Filter, types []string, before task.ID) (sets []task.SearchSet, above task.ID, err error) {
	lookups := f.Lookups()
	store, ok := e.store.(storage.Settings)
	if !ok || len(lookups) == 0 || len(types) == 0 {
		return nil, task.ID{}, nil
	}
	known, _, err := readDeclared(ctx, store)
	if err != nil {
		return nil, task.ID{}, err
	}
	for _, l := range lookups {
		values := l.Values(types)
		from, ok := known.completeAbove(types, l.Attribute)
		if !ok || len(values) > mostSearched || !before.IsZero() && before.Compare(successorOf(from)) <= 0 {
			continue
		}
		sets = append(sets, task.SearchSet{Name: l.Attribute, Values: values})
		if from.Compare(above) > 0 {
			above = from
		}
	}
	return sets, above, nil
}

// completeAbove returns above which id all rows of some types have their values of an attribute, or are Unread. ok is false if that is not known.
func (d *declared) completeAbove(types []string, attribute string) (above task.ID, ok bool) {
	for _, typ := range types {
		is := d.Types[typ][attribute]
		if !is.Complete {
			return task.ID{}, false
		}
		if is.Above.Compare(above) > 0 {
			above = is.Above
		}
	}
	return above, true
}

// successorOf returns the least id above one, which is not the greatest.
func successorOf(id task.ID) task.ID {
	for i := len(id) - 1; i >= 0; i-- {
		if id[i]++; id[i] != 0 {
			break
		}
	}
	return id
}

// queryOf returns the query of the rows that f may select by its terms that need neither payload nor result.
func queryOf(f filter.Filter, b filter.Bounds) storage.ListQuery {
	q := storage.ListQuery{Filter: storage.Filter{States: b.States, Types: b.Types, Key: b.Key}, Kinds: b.Kinds, Scan: listScan}
	if !b.Exact {
		q.Where = f.Rows().Selects
	}
	return q
}

// searchIDs searches by ids, the newest first.
func (e *Engine) searchIDs(ctx context.Context, f filter.Filter, ids []task.ID, before task.ID, limit int) (found Found, err error) {
	if !before.IsZero() {
		ids = slices.DeleteFunc(ids, func(id task.ID) bool { return id.Compare(before) >= 0 })
	}
	if len(ids) > limit {
		ids = ids[:limit]
		found.Next = ids[limit-1]
	}
	all, err := e.GetAll(ctx, ids...)
	if err != nil {
		return Found{}, err
	}
	for _, t := range all {
		if t == nil {
			continue
		}
		found.Read, found.Index = found.Read+1, storage.IndexID
		if !f.Selects(t) {
			continue
		}
		t.Payload, t.Result, t.Children, t.Signals = nil, nil, nil, t.Signals.Listed()
		t.Notes = task.NewNotes(t.Progress(), nil)
		found.Tasks = append(found.Tasks, t)
	}
	return found, nil
}

// searchWhole reads the rows of q with payload and result, and returns the rows that f selects.
func (e *Engine) searchWhole(ctx context.Context, s storage.Inspector, f filter.Filter, q storage.ListQuery) (found Found, err error) {
	limit := q.Limit
	q.Limit = wholeScan
	page, err := s.List(ctx, q)
	if err != nil {
		return Found{}, err
	}
	found.Index = page.Index
	for i, t := range page.Tasks {
		if len(found.Tasks) == limit {
			found.Next = page.Tasks[i-1].ID
			return found, nil
		}
		whole, err := e.Get(ctx, t.ID)
		switch {
		case errors.Is(err, task.ErrNotFound), errors.Is(err, ErrUnreadable):
		case err != nil:
			return Found{}, err
		case f.Selects(whole):
			found.Tasks = append(found.Tasks, t)
		}
		found.Read++
	}
	found.Next, found.Read = page.Next, page.Read
	return found, nil
}
