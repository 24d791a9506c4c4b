package storagetest

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

// listsKeys reports whether s is a [storage.KeyInspector], and not a store of places that are none.
func listsKeys(t *testing.T, s storage.Store) bool {
	in, ok := s.(storage.KeyInspector)
	if !ok {
		return false
	}
	_, err := in.ListKeys(t.Context(), storage.KeyQuery{Limit: 1, Scan: 1})
	return !errors.Is(err, errors.ErrUnsupported)
}

var inspectKeyCases = []testCase{
	{"a key is shown with its head and the rows behind it in their order, and without rows that take no part", func(f *fixture) {
		q := f.queue()
		late, head, second, ended := q.row(task.Submitted, 3), q.row(task.Submitted, 1), q.row(task.Submitted, 1), q.row(task.Done, 0)
		delayed := q.row(task.Waiting, 9)
		delayed.NextEventAt, ended.Turn = at(9), task.Unordered
		head.Payload, head.History = pattern(2000), history(3, 200)
		f.do(&storage.Batch{Insert: []*task.Task{late, head, second, delayed, ended, f.row(task.Submitted)}})
		rows := f.key(q.key, nil, 10)
		equal(f, "rows", idsOf(append([]*task.Task{rows.Head}, rows.Behind...)), []task.ID{head.ID, second.ID, late.ID, delayed.ID})
		equal(f, "more", rows.More, false)
		for _, t := range append(rows.Behind, rows.Head) {
			whole := f.get(t.ID)
			whole.Payload, whole.Result = nil, nil
			f.same(t, whole)
		}
		q.grab(head)
		q.change(head, task.Change{To: task.Error, Outcome: task.Errored, Error: "no"})
		equal(f, "state of the head", f.key(q.key, nil, 0).Head.State, task.Error)
		equal(f, "rows of a key that nothing has", f.key(q.key+"x", nil, 10), storage.KeyRows{})
	}},
	{"the rows behind a head are read by pages", func(f *fixture) {
		q := f.queue()
		var all []*task.Task
		for i := range 20 {
			all = append(all, q.row(task.Submitted, i/5))
		}
		f.do(&storage.Batch{Insert: all})
		for _, limit := range []int{1, 3, 5, 19, 20} {
			got, after := []task.ID{all[0].ID}, (*task.Seat)(nil)
			for more := true; more; {
				rows := f.key(q.key, after, limit)
				if more = rows.More; len(rows.Behind) > limit || more && len(rows.Behind) < limit || rows.Head.ID != all[0].ID {
					f.Fatalf("limit %d: a page of %d rows, more %t, head %v", limit, len(rows.Behind), more, rows.Head.ID)
				}
				got = append(got, idsOf(rows.Behind)...)
				seat := rows.Behind[len(rows.Behind)-1].Seat()
				after = &seat
			}
			equal(f, fmt.Sprint("rows by pages of ", limit), got, idsOf(all))
		}
		for _, limit := range []int{0, -1} {
			rows := f.key(q.key, nil, limit)
			equal(f, "a page of no rows", len(rows.Behind), 0)
			equal(f, "more behind a page of no rows", rows.More, true)
		}
	}},
	{"keys are listed in their order, with the rows behind as far as they are counted", func(f *fixture) {
		q := f.queue()
		keys := f.nearby("", "a", "\x00", "\xff", "b", "\x00\xff")[:7]
		for i, name := range keys {
			q.key = name
			var rows []*task.Task
			for n := range i + 1 {
				rows = append(rows, q.row(task.Submitted, 10+n))
			}
			f.do(&storage.Batch{Insert: rows})
		}
		page := f.keysPage(storage.KeyQuery{Limit: 100, Scan: 100, Count: 3})
		equal(f, "end", page.Next, "")
		equal(f, "keys", len(page.Keys), len(keys))
		for i, k := range page.Keys {
			equal(f, "key", k.Key, slices.Sorted(slices.Values(keys))[i])
			behind := slices.Index(keys, k.Key)
			equal(f, "rows behind "+k.Key, k.Behind, min(behind, 3))
			equal(f, "more behind "+k.Key, k.More, behind > 3)
			equal(f, "oldest", k.Oldest, at(10))
			equal(f, "head", k.Head.OrderingKey, k.Key)
		}
		for _, k := range f.keysPage(storage.KeyQuery{Limit: 100, Scan: 100}).Keys {
			equal(f, "rows that were not to be counted", k.Behind, 0)
			equal(f, "more", k.More, k.Key != keys[0])
		}
		behind := slices.DeleteFunc(slices.Sorted(slices.Values(keys)), func(key string) bool { return key == keys[0] })
		for limit := range 4 {
			q := storage.KeyQuery{Limit: limit + 1, Scan: 2 + limit/2, Count: 1}
			equal(f, "keys by pages", f.allKeys(q), slices.Sorted(slices.Values(keys)))
			q.Behind, q.Count = true, limit
			equal(f, "keys with rows behind, by pages", f.allKeys(q), behind)
			for _, k := range f.keysPage(q).Keys {
				equal(f, "head of a key with rows behind", k.Head.OrderingKey, k.Key)
			}
		}
		for _, q := range []storage.KeyQuery{{Limit: 0, Scan: 9}, {Limit: 9}, {Limit: -1, Scan: -1}} {
			equal(f, "no keys", f.keysPage(q), storage.KeyPage{})
		}
	}},
	{"keys are selected by the state of their heads, and one without a head has none", func(f *fixture) {
		states := map[string]task.State{}
		for _, s := range []task.State{task.Submitted, task.Processing, task.Error, task.Waiting} {
			q := f.queue()
			head, next := q.row(task.Submitted, 1), q.row(task.Submitted, 2)
			f.do(&storage.Batch{Insert: []*task.Task{head, next}})
			if s != task.Submitted {
				q.grab(head)
			}
			if s == task.Error || s == task.Waiting {
				q.change(head, task.Change{To: s, NextEventAt: at(60), Outcome: task.Errored})
			}
			states[q.key] = s
		}
		delayed := f.queue()
		waits := delayed.row(task.Waiting, 5)
		waits.NextEventAt = at(5)
		f.do(&storage.Batch{Insert: []*task.Task{waits, delayed.row(task.Submitted, 6)}})
		for _, some := range subsets([]task.State{task.Submitted, task.Processing, task.Error, task.Waiting}) {
			var want []string
			for key, s := range states {
				if len(some) == 0 || slices.Contains(some, s) {
					want = append(want, key)
				}
			}
			if len(some) == 0 {
				want = append(want, delayed.key)
			}
			slices.Sort(want)
			equal(f, fmt.Sprint("keys with heads in ", some), f.allKeys(storage.KeyQuery{States: some, Limit: 2, Scan: 100}), want)
		}
		for _, k := range f.keysPage(storage.KeyQuery{Limit: 100, Scan: 100, Count: 9}).Keys {
			switch s, hasHead := states[k.Key]; {
			case hasHead:
				equal(f, "state of the head", k.Head.State, s)
			case k.Head != nil || k.Behind != 2 || k.Oldest != at(5):
				f.Errorf("a key without a head: %+v", k)
			}
		}
	}},
	{"random rows are shown as package memory shows them", func(f *fixture) {
		m := newModel(f, 3)
		for range 10 {
			for range 10 {
				m.step()
			}
			m.compareKeys()
		}
	}},
}

// nearby returns ordering keys of three of these parts that are in the place of the rows of the test, in an order
// that is not theirs.
func (f *fixture) nearby(parts ...string) (keys []string) {
	for _, a := range parts {
		for _, b := range parts {
			for _, c := range parts {
				key := a + c + b
				d, ok := f.Store.(Placer)
				isHere := !ok || d.Place(f.ids.NextIn(epoch, task.ShardOf(key))) == d.Place(f.near)
				if key != "" && isHere && !slices.Contains(keys, key) {
					keys = append(keys, key)
				}
			}
		}
	}
	slices.SortFunc(keys, func(a, b string) int { return cmp.Compare(task.ShardOf(a), task.ShardOf(b)) })
	return keys
}

// key returns one page of the rows of a key.
func (f *fixture) key(key string, after *task.Seat, limit int) storage.KeyRows {
	f.Helper()
	rows, err := f.Store.(storage.KeyInspector).ListKey(f.ctx(), key, after, limit)
	if err != nil {
		f.Fatal(err)
	}
	return rows
}

// keysPage returns one page of keys.
func (f *fixture) keysPage(q storage.KeyQuery) storage.KeyPage {
	f.Helper()
	page, err := f.Store.(storage.KeyInspector).ListKeys(f.ctx(), q)
	if err != nil || len(page.Keys) > max(0, q.Limit) {
		f.Fatalf("%d keys, at most %d were asked for, %v", len(page.Keys), q.Limit, err)
	}
	return page
}

// allKeys returns the keys that q selects, by pages.
func (f *fixture) allKeys(q storage.KeyQuery) (keys []string) {
	f.Helper()
	for {
		page := f.keysPage(q)
		for _, k := range page.Keys {
			keys = append(keys, k.Key)
		}
		if page.Next == "" {
			return keys
		}
		if page.Next <= q.After {
			f.Fatalf("the page after %q is to be followed by that after %q", q.After, page.Next)
		}
		q.After = page.Next
	}
}

// compareKeys compares the keys of both stores, and the rows of each.
func (m *model) compareKeys() {
	m.f.Helper()
	reference := &fixture{T: m.f.T, Store: m.want}
	q := storage.KeyQuery{Limit: 100, Scan: 1000, Count: m.rand.IntN(4)}
	want := reference.keysPage(q).Keys
	q.Limit, q.Scan = 1+m.rand.IntN(3), 1+m.rand.IntN(5)
	equal(m.f, "keys", len(m.f.allKeys(q)), len(want))
	q.Behind = true
	equal(m.f, "keys with rows behind", len(m.f.allKeys(q)), len(reference.allKeys(q)))
	q.Behind = false
	for _, w := range want {
		one := q
		one.Limit, one.Scan, one.After = 100, 1000, ""
		all := m.f.keysPage(one).Keys
		i := slices.IndexFunc(all, func(k storage.KeyOrder) bool { return k.Key == w.Key })
		if i < 0 {
			m.f.Fatalf("key %q is missing", w.Key)
		}
		m.same(all[i].Head, w.Head)
		equal(m.f, "behind", []any{all[i].Behind, all[i].More, all[i].Oldest}, []any{w.Behind, w.More, w.Oldest})
		limit := m.rand.IntN(5)
		got, rows := m.f.key(w.Key, nil, limit), reference.key(w.Key, nil, limit)
		m.same(got.Head, rows.Head)
		equal(m.f, "rows", idsOf(got.Behind), idsOf(rows.Behind))
		equal(m.f, "more", got.More, rows.More)
	}
}
