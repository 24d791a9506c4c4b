package storagetest

import (
	"fmt"
	"slices"

	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

var inspectCases = []testCase{
	{"a list has the rows that match, newest first, without payload and result", func(f *fixture) {
		ts := f.mixture()
		for _, filter := range filters() {
			var want []*task.Task
			for i := len(ts) - 1; i >= 0; i-- {
				if filter.Match(ts[i].State, ts[i].Type) {
					c := ts[i].Clone()
					c.Payload, c.Result, c.Notes = nil, nil, task.NewNotes(c.Progress(), nil)
					c.Signals, c.Children = c.Signals.Listed(), nil
					want = append(want, c)
				}
			}
			got, next := f.list(filter, task.ID{}, 1000, 1000)
			equal(f, "ids", idsOf(got), idsOf(want))
			equal(f, "next", next, task.ID{})
			for i := range got {
				f.same(got[i], want[i])
			}
		}
	}},
	{"a list has the rows with a key only, if one is asked for", func(f *fixture) {
		var want []task.ID
		for i, s := range task.States() {
			for _, order := range []string{"", f.queue().key} {
				t := f.row(s, func(t *task.Task) { t.Type, t.OrderingKey, t.Key = s.String(), order, "k" })
				other := f.row(s, func(t *task.Task) { t.Type, t.Key = s.String()+order, "other" })
				f.put(t, other, f.row(s))
				if i%2 == 0 {
					want = append(want, t.ID)
				}
			}
		}
		slices.Reverse(want)
		var odd []task.State
		for i, s := range task.States() {
			if i%2 == 0 {
				odd = append(odd, s)
			}
		}
		got, _ := f.list(storage.Filter{Key: "k", States: odd}, task.ID{}, 1000, 1000)
		equal(f, "ids", idsOf(got), want)
		q := storage.ListQuery{Filter: storage.Filter{Key: "k"}, Limit: 3, Scan: 2}
		rows, read := 0, 0
		for more := true; more; more = !q.Before.IsZero() {
			page := f.page(q)
			rows += len(page.Tasks)
			if q.Before = page.Next; page.Index == storage.IndexKey {
				read += page.Read
			}
		}
		equal(f, "in pages", rows, 2*len(task.States()))
		if read > rows {
			f.Errorf("%d rows were read to find %d", read, rows)
		}
		got, _ = f.list(storage.Filter{Key: "k", Types: []string{task.Error.String()}}, task.ID{}, 1000, 1000)
		equal(f, "of a type", len(got), 2)
		got, _ = f.list(storage.Filter{Key: "k", States: []task.State{task.Error, task.Waiting}}, task.ID{}, 1000, 1000)
		equal(f, "of states that have not ended", len(got), 4)
		got, _ = f.list(storage.Filter{Key: "none"}, task.ID{}, 1000, 1000)
		equal(f, "of no key", len(got), 0)
	}},
	{"pages of a list join without gaps and repeats", func(f *fixture) {
		f.mixture()
		for _, filter := range filters() {
			want, _ := f.list(filter, task.ID{}, 1000, 1000)
			for _, page := range [][2]int{{1, 1000}, {4, 1000}, {1000, 1}, {1000, 5}, {3, 4}} {
				var got []*task.Task
				for before, more := (task.ID{}), true; more; {
					ts, next := f.list(filter, before, page[0], page[1])
					if len(ts) > page[0] {
						f.Fatalf("%d rows, at most %d were asked for", len(ts), page[0])
					}
					got = append(got, ts...)
					before, more = next, !next.IsZero()
				}
				equal(f, "ids", idsOf(got), idsOf(want))
			}
		}
	}},
	{"a list has the rows of which a function is true, and says how many it has read", func(f *fixture) {
		f.mixture()
		f.put(f.rows(600, task.Waiting, nil)...) // more than a store may read at once
		for _, filter := range filters() {
			all, _ := f.list(filter, task.ID{}, 2000, 2000)
			wants := func(t *task.Task) bool { return t.Priority%2 == 0 }
			want := slices.DeleteFunc(all, func(t *task.Task) bool { return !wants(t) })
			for _, limits := range [][2]int{{1000, 2000}, {20, 1000}, {100, 77}} {
				var got []*task.Task
				q := storage.ListQuery{Filter: filter, Limit: limits[0], Scan: limits[1], Where: wants}
				for more := true; more; more = !q.Before.IsZero() {
					page := f.page(q)
					if len(page.Tasks) > limits[0] || page.Read < len(page.Tasks) {
						f.Fatalf("%d rows of %d that were read, at most %d were asked for", len(page.Tasks), page.Read, limits[0])
					}
					got = append(got, page.Tasks...)
					q.Before = page.Next
				}
				equal(f, "ids", idsOf(got), idsOf(want))
				for i := range got {
					f.same(got[i], want[i])
				}
			}
		}
		none := f.page(storage.ListQuery{Limit: 10, Scan: 2000, Where: func(*task.Task) bool { return false }})
		equal(f, "rows", len(none.Tasks), 0)
		equal(f, "read", none.Read, len(f.page(storage.ListQuery{Limit: 2000, Scan: 2000}).Tasks))
	}},
	{"a list stops reading at its budget", func(f *fixture) {
		f.put(f.row(task.Failed))
		f.put(f.rows(20, task.Submitted, nil)...)
		got, next := f.list(storage.Filter{States: []task.State{task.Failed}}, task.ID{}, 10, 5)
		if len(got) != 0 || next.IsZero() {
			f.Fatalf("got %d rows, next %v", len(got), next)
		}
	}},
	{"a list of any state stops reading at its budget and goes on from there", func(f *fixture) {
		for _, s := range task.States() {
			f.put(f.rows(20, s, func(i int, t *task.Task) {
				if i%2 == 0 {
					t.NextEventAt = at(i)
				}
			})...)
			only := storage.Filter{States: []task.State{s}}
			got, next := f.list(only, task.ID{}, 10, 5)
			if len(got) > 5 || next.IsZero() {
				f.Fatalf("%v: got %d rows, next %v", s, len(got), next)
			}
			rest, next := f.list(only, next, 1000, 1000)
			if len(got)+len(rest) != 20 || !next.IsZero() {
				f.Fatalf("%v: got %d rows and then %d, next %v", s, len(got), len(rest), next)
			}
		}
	}},
	{"a list without limit or budget is empty", func(f *fixture) {
		f.mixture()
		for _, filter := range filters() {
			for _, page := range [][2]int{{0, 9}, {-1, 9}, {9, 0}, {9, -1}} {
				got, next := f.list(filter, task.ID{}, page[0], page[1])
				equal(f, "rows", len(got), 0)
				equal(f, "next", next, task.ID{})
			}
		}
	}},
	{"lists and counts of any states agree with package memory while rows change", func(f *fixture) {
		m := newModel(f, 1)
		for range 3 {
			for range 20 {
				m.step()
			}
			for _, states := range subsets(task.States()) {
				for _, types := range [][]string{nil, {"mail"}, {"m\x00", "", "payout"}} {
					m.compareInspector(storage.Filter{States: states, Types: types})
				}
			}
		}
	}},
	{"a count tells states and types apart", func(f *fixture) {
		ts := f.mixture()
		for _, filter := range filters() {
			want := make(map[storage.StateType]int64)
			for _, t := range ts {
				if filter.Match(t.State, t.Type) {
					want[storage.StateType{State: t.State, Type: t.Type}]++
				}
			}
			equal(f, "count", f.count(filter), want)
		}
	}},
}

// mixture inserts rows of all states and several types, and returns them by age.
func (f *fixture) mixture() []*task.Task {
	types := []string{"mail", "payout", "\x00", "mai", task.WorkflowType}
	ts := f.rows(60, task.Waiting, func(i int, t *task.Task) {
		t.State, t.Type = task.States()[i%7], types[i%5]
		if i%3 == 0 {
			t.NextEventAt = at(-i)
		}
		t.History, t.Result = history(i%5, 200), pattern(i*40)
	})
	f.put(ts...)
	return ts
}

func filters() []storage.Filter {
	return []storage.Filter{
		{},
		{States: []task.State{task.Done}},
		{States: []task.State{task.Done, task.Waiting}, Types: []string{"mail"}},
		{Types: []string{"payout", "\x00"}},
		{States: []task.State{task.Error}},
		{States: []task.State{task.Error, task.Error}, Types: []string{"mail", "mail"}},
		{States: []task.State{task.Processing, task.Submitted, task.Waiting}},
		{States: []task.State{task.Submitted, task.Waiting}, Types: []string{"payout", "mai", "nobody's"}},
		{States: []task.State{task.Submitted}},
		{States: []task.State{task.Submitted}, Types: []string{"mail", "\x00", "mail"}},
		{States: []task.State{task.Waiting}},
		{States: []task.State{task.Processing}, Types: []string{"payout"}},
		{States: []task.State{task.Failed}},
		{Types: []string{task.WorkflowType}},
		{States: []task.State{task.Waiting, task.Cancelled, task.Done}, Types: []string{task.WorkflowType}},
		{States: []task.State{task.Submitted}, Types: []string{task.WorkflowType}},
		{States: []task.State{0}},
		{Types: []string{"nobody's"}},
	}
}

func (f *fixture) list(filter storage.Filter, before task.ID, limit, scan int) ([]*task.Task, task.ID) {
	f.Helper()
	page := f.page(storage.ListQuery{Filter: filter, Before: before, Limit: limit, Scan: scan})
	return page.Tasks, page.Next
}

func (f *fixture) page(q storage.ListQuery) storage.ListPage {
	f.Helper()
	page, err := f.Store.(storage.Inspector).List(f.ctx(), q)
	if err != nil {
		f.Fatal(err)
	}
	if !q.Before.IsZero() && page.Next.Compare(q.Before) >= 0 {
		f.Fatalf("the page before %v is to be followed by that before %v", q.Before, page.Next)
	}
	return page
}

func (f *fixture) count(filter storage.Filter) map[storage.StateType]int64 {
	f.Helper()
	n, err := f.Store.(storage.Inspector).Count(f.ctx(), filter)
	if err != nil {
		f.Fatal(err)
	}
	return n
}

// subsets returns all subsets, including the empty one.
func subsets[T any](of []T) [][]T {
	all := [][]T{nil}
	for _, one := range of {
		for _, s := range all {
			all = append(all, append(slices.Clone(s), one))
		}
	}
	return all
}

// compareInspector compares the pages and the counts of the rows that filter selects in both
// stores. The stores may end their pages at different rows.
func (m *model) compareInspector(filter storage.Filter) {
	m.f.Helper()
	reference := &fixture{T: m.f.T, Store: m.want}
	equal(m.f, "count", m.f.count(filter), reference.count(filter))
	want, _ := reference.list(filter, task.ID{}, 1000, 1000)
	limit, scan := 1+m.rand.IntN(20), 1+m.rand.IntN(40)
	var got []*task.Task
	for before, more := (task.ID{}), true; more; {
		ts, next := m.f.list(filter, before, limit, scan)
		if len(ts) > limit {
			m.f.Fatalf("%d rows, at most %d were asked for", len(ts), limit)
		}
		got = append(got, ts...)
		before, more = next, !next.IsZero()
	}
	equal(m.f, fmt.Sprintf("ids of %v", filter), idsOf(got), idsOf(want))
	for i := range got {
		m.same(got[i], want[i])
	}
}
