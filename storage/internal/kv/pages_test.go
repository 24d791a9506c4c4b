package kv

import (
	"slices"
	"testing"

	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

// pagesOf reads a list page by page, calls between after each page, and returns its ids and how many keys were read.
func pagesOf(t *testing.T, s *sorted, db *DB, f storage.Filter, limit, scan int, between func(page int)) (ids []task.ID, read int) {
	t.Helper()
	begin := s.gets + s.seen
	var before task.ID
	for page := 0; ; page++ {
		v := db.Read(s)
		got, err := v.List(t.Context(), storage.ListQuery{Filter: f, Before: before, Limit: limit, Scan: scan})
		ts, next := got.Tasks, got.Next
		if err != nil {
			t.Fatal(err)
		}
		for _, one := range ts {
			ids = append(ids, one.ID)
		}
		if next.IsZero() {
			return ids, (s.gets + s.seen) - begin
		}
		before = next
		if between != nil {
			between(page)
		}
	}
}

func TestAListReadsEachIndexEntryOnce(t *testing.T) {
	s, db := history(t, 1_000, 500)
	f := storage.Filter{States: []task.State{task.Waiting, task.Submitted}}
	all, once := pagesOf(t, s, db, f, 10_000, 1<<20, nil)
	paged, read := pagesOf(t, s, db, f, 50, 1<<20, nil)
	if !slices.Equal(all, paged) || len(all) != 1_000 {
		t.Errorf("in pages there are %d rows, of %d", len(paged), len(all))
	}
	if read > 2*once {
		t.Errorf("20 pages read %d keys, one page reads %d", read, once)
	}
	few, read := pagesOf(t, s, db, f, 50, 300, nil) // there are more entries than may be read for a page
	if !slices.Equal(all, few) || read > 4*once {
		t.Errorf("with a small scan there are %d rows, of %d, and %d keys were read", len(few), len(all), read)
	}
}

func TestAListGoesOnWithoutRowsThatWereDeletedOrHaveChanged(t *testing.T) {
	s, db := history(t, 400, 100)
	f := storage.Filter{States: []task.State{task.Waiting, task.Submitted}}
	all, _ := pagesOf(t, s, db, f, 1_000, 1<<20, nil)
	gone := make(map[task.ID]bool)
	got, _ := pagesOf(t, s, db, f, 10, 1<<20, func(page int) {
		if page > 0 {
			return
		}
		tx := db.Begin(s)
		for i, id := range all[20:40] {
			ref := task.Ref{ID: id, Version: 1}
			var done []bool
			var err error
			if i%2 == 0 {
				done, err = tx.Delete(t.Context(), ref)
			} else {
				var rows []*task.Task
				rows, err = tx.Swap(t.Context(), task.Change{Ref: ref, To: task.Cancelled, At: moment})
				done = []bool{rows[0] != nil}
			}
			if err != nil || !done[0] {
				t.Fatal(id, done, err)
			}
			gone[id] = true
		}
		tx.Committed()
	})
	want := slices.DeleteFunc(slices.Clone(all), func(id task.ID) bool { return gone[id] })
	if !slices.Equal(got, want) {
		t.Errorf("there are %d rows, want %d", len(got), len(want))
	}
}

func TestAListHasRowsThatGetATimeBeforeItComesToThem(t *testing.T) {
	s, db := history(t, 0, 0)
	var ids []task.ID
	gen := task.NewIDs([32]byte{1})
	tx := db.Begin(s)
	for range 20 {
		r := &task.Task{ID: gen.Next(moment), Version: 1, State: task.Error, Type: "mail"}
		if _, err := tx.Insert(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		ids = append(ids, r.ID)
	}
	tx.Committed()
	slices.Reverse(ids)
	f := storage.Filter{States: []task.State{task.Error, task.Waiting, task.Submitted}}
	got, _ := pagesOf(t, s, db, f, 3, 1<<20, func(page int) {
		tx := db.Begin(s)
		for i, id := range ids[min(3*page+3, len(ids)):min(3*page+5, len(ids))] {
			c := task.Change{Ref: task.Ref{ID: id, Version: 1}, To: task.Waiting, At: moment, NextEventAt: moment}
			if i%2 == 0 {
				c.To = task.Submitted
			}
			if rows, err := tx.Swap(t.Context(), c); err != nil || rows[0] == nil {
				t.Fatal(rows, err)
			}
		}
		tx.Committed()
	})
	if !slices.Equal(got, ids) {
		t.Errorf("there are %v, want %v", got, ids)
	}
}

// The second of two lists of the same filter begins later. It has the rows that were there by then, although the first one has collected its
// ids before.
func TestAListHasRowsThatWereThereAtItsStart(t *testing.T) {
	s, db := history(t, 40, 10)
	f := storage.Filter{States: []task.State{task.Waiting, task.Submitted}}
	all, _ := pagesOf(t, s, db, f, 1_000, 1<<20, nil)
	v := db.Read(s)
	if first, err := v.List(t.Context(), storage.ListQuery{Filter: f, Limit: 5, Scan: 1 << 20}); err != nil || first.Next.IsZero() {
		t.Fatal(first, err)
	}
	late := &task.Task{ID: all[15], Version: 1, State: task.Waiting, Type: "mail", NextEventAt: moment}
	late.ID[15]++ // below the first page
	tx := db.Begin(s)
	if _, err := tx.Insert(t.Context(), late); err != nil {
		t.Fatal(err)
	}
	tx.Committed()
	all = slices.Insert(all, 15, late.ID)
	if got, _ := pagesOf(t, s, db, f, 5, 1<<20, nil); !slices.Equal(got, all) {
		t.Errorf("the second list has %d rows, of %d", len(got), len(all))
	}
}

func TestIDsThatWereCollectedBeforeAListBeganAreNotForIt(t *testing.T) {
	f, other, before := storage.Filter{States: []task.State{task.Waiting}}, storage.Filter{States: []task.State{task.Done}}, task.ID{9}
	for name, c := range map[string]struct {
		begin func(p *pages)
		kept  bool
	}{
		"none":                       {func(*pages) {}, true},
		"one of another filter":      {func(p *pages) { p.start(other) }, true},
		"one of the filter":          {func(p *pages) { p.start(f) }, false},
		"one of the filter, earlier": {func(p *pages) { p.start(f); p.start(other) }, false},
		"more than are remembered": {func(p *pages) {
			for range maxBegun + 1 {
				p.start(other)
			}
		}, false},
	} {
		var p pages
		p.start(f)
		since := p.begunLists()
		c.begin(&p)
		p.keep(nextPage{filter: f, before: before, at: moment, ids: []task.ID{{1}}, since: since})
		if _, kept := p.take(f, before, moment); kept != c.kept {
			t.Errorf("lists that have begun since: %s: the ids are kept: %v", name, kept)
		}
	}
}
