package storagetest

import (
	"fmt"
	"slices"

	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

var searchCases = []testCase{
	{"rows are found by their search values, and no others are read", func(f *fixture) {
		var want []task.ID
		for i := range 120 {
			t := f.row(task.States()[i%7], func(t *task.Task) {
				t.Search = []task.SearchValue{task.SearchValue(1 + i%5), 1<<63 + task.SearchValue(i%3)}
			})
			f.put(t)
			if i%5 == 2 || i%5 == 4 {
				want = append(want, t.ID)
			}
		}
		f.put(f.row(task.Submitted), f.row(task.Done))
		slices.Reverse(want)
		set := task.SearchSet{Name: "payload.a", Values: []task.SearchValue{3, 5, 77}}
		for _, limits := range [][2]int{{200, 200}, {1, 100}, {100, 1}, {2, 3}} {
			ids, read := f.search(storage.ListQuery{Search: []task.SearchSet{set}, Limit: limits[0], Scan: limits[1]})
			equal(f, "ids", ids, want)
			if read > len(want) {
				f.Errorf("%d rows were read to find %d", read, len(want))
			}
		}
		above := want[10]
		ids, _ := f.search(storage.ListQuery{Search: []task.SearchSet{set}, Above: above, Limit: 4, Scan: 7})
		equal(f, "ids above one", ids, want[:10])
		ids, _ = f.search(storage.ListQuery{Above: above, Limit: 9, Scan: 9})
		equal(f, "rows above one", slices.Contains(ids, above) || !slices.Contains(ids, want[9]), false)
	}},
	{"the least frequent of several search values finds the rows", func(f *fixture) {
		var want []task.ID
		for i := range 300 {
			t := f.row(task.Error, func(t *task.Task) {
				t.LastError, t.Search = "an error", []task.SearchValue{1}
				if i%20 == 3 {
					t.Search = append(t.Search, 2)
				}
			})
			if f.put(t); i%20 == 3 {
				want = append(want, t.ID)
			}
		}
		slices.Reverse(want)
		sets := []task.SearchSet{{Name: "payload.often", Values: []task.SearchValue{1}}, {Name: "payload.seldom", Values: []task.SearchValue{2}}}
		kind := task.KindOfError("an error")
		for _, q := range []storage.ListQuery{
			{Search: sets}, {Search: sets[1:], Kinds: []task.KindRange{{From: kind, To: kind}}}, {Search: sets, Kinds: []task.KindRange{{From: 0, To: 1}, {From: kind, To: kind}}},
		} {
			q.Limit, q.Scan, q.States = 1000, 1000, []task.State{task.Error}
			ids, read := f.search(q)
			equal(f, "ids", ids, want)
			if read > len(want) {
				f.Errorf("%d rows were read to find %d", read, len(want))
			}
		}
	}},
	{"search values follow the changes of their row", func(f *fixture) {
		find := func(v task.SearchValue) int {
			ids, _ := f.search(storage.ListQuery{Search: []task.SearchSet{{Name: "payload.a", Values: []task.SearchValue{v}}}, Limit: 10, Scan: 10})
			return len(ids)
		}
		t := f.row(task.Submitted, func(t *task.Task) { t.Search = []task.SearchValue{1, 2} })
		f.put(t)
		equal(f, "rows with the value", find(2), 1)
		after := f.swap(task.Change{Ref: t.Ref(), To: task.Processing, At: at(1)})
		equal(f, "values of a row that was grabbed", after.Search, t.Search)
		after = f.swap(task.Change{Ref: after.Ref(), To: task.Waiting, At: at(2), Payload: new([]byte("x")), Search: &[]task.SearchValue{2, 3}})
		equal(f, "rows with a value", fmt.Sprint(find(1), find(2), find(3)), "0 1 1")
		after = f.swap(task.Change{Ref: after.Ref(), To: task.Cancelled, At: at(3)})
		equal(f, "rows with a value at the end", fmt.Sprint(find(2), find(3)), "1 1")
		if gone, err := f.Delete(f.ctx(), after.Ref()); err != nil || !gone[0] {
			f.Fatal(gone, err)
		}
		equal(f, "rows with a value after all", fmt.Sprint(find(2), find(3)), "0 0")
	}},
}

// search reads all pages of q, and returns the ids and, if an index of search values has found them, how many rows were read.
func (f *fixture) search(q storage.ListQuery) (ids []task.ID, read int) {
	f.Helper()
	_, divided := f.Store.(storage.Divided) // each of its databases reads a page
	for more := true; more; more = !q.Before.IsZero() {
		page := f.page(q)
		ids = append(ids, idsOf(page.Tasks)...)
		if q.Before = page.Next; !divided && page.Index != "" && page.Index != storage.IndexKind {
			read += page.Read
		}
	}
	return ids, read
}
