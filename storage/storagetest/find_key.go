package storagetest

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

// findsKeys reports whether s is a [storage.KeyFinder], and not a store of places that are none.
func findsKeys(t *testing.T, s storage.Store) bool {
	in, ok := s.(storage.KeyFinder)
	if !ok {
		return false
	}
	_, err := in.FindKey(t.Context(), "", "", "none")
	return !errors.Is(err, errors.ErrUnsupported)
}

var findKeyCases = []testCase{
	{"a task is found by its type, its ordering key and its key until it is deleted", func(f *fixture) {
		f.together()
		order := f.queue().key
		finder := f.Store.(storage.KeyFinder)
		var rows []*task.Task
		for _, typ := range []string{"mail", "m\x00"} {
			for _, o := range []string{"", order} {
				for _, key := range []string{"k", order, order + "k"} {
					rows = append(rows, f.row(task.Submitted, func(t *task.Task) {
						t.Type, t.OrderingKey, t.Key, t.Payload = typ, o, key, pattern(600)
					}))
				}
			}
		}
		f.put(rows...)
		find := func(want *task.Task) {
			f.Helper()
			got, err := finder.FindKey(f.ctx(), want.Type, want.OrderingKey, want.Key)
			if err != nil {
				f.Fatal(err)
			}
			f.same(got, want)
		}
		for i, t := range rows {
			find(t)
			f.step(t, task.Change{To: task.Cancelled, At: at(1), NextEventAt: at(1000)})
			find(t)
			if i%2 == 0 {
				f.remove(t.Ref())
			}
		}
		for i, t := range rows {
			if i%2 == 1 {
				find(t)
			} else if _, err := finder.FindKey(f.ctx(), t.Type, t.OrderingKey, t.Key); !errors.Is(err, task.ErrNotFound) {
				f.Errorf("a task that is gone: %v", err)
			}
		}
		for _, none := range [][3]string{{"mail", "", "none"}, {"none", "", "k"}, {"mail", "none", "k"}, {"", order, "k"}} {
			if _, err := finder.FindKey(f.ctx(), none[0], none[1], none[2]); !errors.Is(err, task.ErrNotFound) {
				f.Errorf("%q: %v", none, err)
			}
		}
	}},
	{"the keys of a type are listed in their order, by a prefix and in pages, until their tasks are deleted", func(f *fixture) {
		f.together()
		finder, typ, order := f.Store.(storage.KeyFinder), "listed"+f.queue().key, f.queue().key
		held := make(map[string]*task.Task)
		for _, key := range []string{"a", "a/", "a/1", "a/10", "a/2", "a/\x00", "a/\xff", "a/\xff\xff", "a0", "b", "\x00", "\xff", "\xff\xff", "ä/1"} {
			held[key] = f.row(task.Waiting, func(t *task.Task) { t.Type, t.Key, t.NextEventAt = typ, key, at(1000) })
			others := []*task.Task{held[key]}
			for _, other := range [][2]string{{typ + "\x00", ""}, {typ + "x", ""}, {typ, order}, {typ, "\x00"}} {
				others = append(others, f.row(task.Waiting, func(t *task.Task) {
					t.Type, t.OrderingKey, t.Key, t.NextEventAt = other[0], other[1], key, at(1000)
				}))
			}
			f.put(others...)
		}
		compare := func(prefix string) {
			f.Helper()
			var want []storage.KeyHolder
			for _, key := range slices.Sorted(maps.Keys(held)) {
				if strings.HasPrefix(key, prefix) {
					want = append(want, storage.KeyHolder{Key: key, ID: held[key].ID})
				}
			}
			for _, limit := range []int{1, 2, 100} {
				var got []storage.KeyHolder
				for after := ""; ; after = got[len(got)-1].Key {
					page, err := finder.KeysOf(f.ctx(), typ, prefix, after, limit)
					if err != nil || len(page) > limit {
						f.Fatalf("a page of %d: %v", len(page), err)
					}
					if got = append(got, page...); len(page) == 0 {
						break
					}
				}
				if !slices.Equal(got, want) {
					f.Errorf("prefix %q, limit %d: %q, not %q", prefix, limit, got, want)
				}
			}
		}
		for _, gone := range []string{"", "a/1", "\xff", "b"} {
			if t := held[gone]; t != nil {
				f.step(t, task.Change{To: task.Cancelled, At: at(1), NextEventAt: at(1000)})
				compare("a/")
				f.remove(t.Ref())
				delete(held, gone)
			}
			for _, prefix := range []string{"", "a", "a/", "a/1", "a/\xff", "\xff", "\x00", "ä", "none"} {
				compare(prefix)
			}
		}
		for _, q := range [][2]string{{"a/", "a0"}, {"a/", "b"}, {"\xff", "\xff\xff\xff"}} {
			if page, err := finder.KeysOf(f.ctx(), typ, q[0], q[1], 10); len(page) > 0 || err != nil {
				f.Errorf("the keys %q after %q: %v, %v", q[0], q[1], page, err)
			}
		}
		if page, err := finder.KeysOf(f.ctx(), typ, "", "", 0); len(page) > 0 || err != nil {
			f.Errorf("a page without room: %v, %v", page, err)
		}
	}},
}
