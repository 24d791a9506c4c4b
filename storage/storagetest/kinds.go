package storagetest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

var kindCases = []testCase{
	{"rows in error are found by the kinds of their errors, and no others are read", func(f *fixture) {
		var want []task.ID
		for i := range 90 {
			t := f.row(task.States()[i%7], func(t *task.Task) { t.LastError = fmt.Sprintf("error %c of %d", 'a'+i%3, i) })
			f.put(t)
			if t.State == task.Error && i%3 == 1 {
				want = append(want, t.ID)
			}
		}
		slices.Reverse(want)
		kind := task.KindOfError("error b of 1")
		for _, limits := range [][2]int{{100, 100}, {1, 100}, {100, 1}, {2, 3}} {
			var got []task.ID
			read := 0
			q := storage.ListQuery{Filter: storage.Filter{States: []task.State{task.Error}}, Kinds: []task.KindRange{{From: kind, To: kind}}, Limit: limits[0], Scan: limits[1]}
			for more := true; more; more = !q.Before.IsZero() {
				page := f.page(q)
				got = append(got, idsOf(page.Tasks)...)
				if q.Before = page.Next; page.Index == storage.IndexKind {
					read += page.Read
				}
			}
			equal(f, "ids", got, want)
			if read > len(want) {
				f.Errorf("%d rows were read to find %d", read, len(want))
			}
		}
	}},
	{"kinds of errors are counted by type and node, with their times", func(f *fixture) {
		for i := range 40 {
			f.put(f.row(task.Error, func(t *task.Task) {
				t.Type, t.Node, t.UpdatedAt = []string{"mail", "mai"}[i%2], []string{"", "n1", "n2"}[i%3], at(i)
				t.LastError = fmt.Sprintf("error %c of %d", 'a'+i/20, i)
			}))
		}
		f.put(f.row(task.Error), f.row(task.Failed, func(t *task.Task) { t.LastError = "error a of 1" }))
		all := f.kinds(nil, 4)
		equal(f, "kinds", len(all), 4)
		for _, k := range all {
			equal(f, "rows", k.Rows, 10)
			equal(f, "nodes", k.Nodes, []string{"n1", "n2"})
			equal(f, "duration", k.Last.Sub(k.First), at(18).Sub(at(0)))
			t := f.get(k.Sample)
			equal(f, "sample", []any{t.UpdatedAt, t.Type, t.LastError, task.KindOfError(t.LastError)}, []any{k.Last, k.Type, k.Error, k.Kind})
		}
		equal(f, "kinds of a type", len(f.kinds([]string{"mai", "none"}, 2)), 2)
		if _, complete, err := f.Store.(storage.KindCounter).CountKinds(f.ctx(), nil, 3); complete || err != nil {
			f.Errorf("of four kinds three are all: %v, %v", complete, err)
		}
	}},
}

// countsKinds reports whether a store counts kinds of errors, with all databases that it has.
func countsKinds(s storage.Store) bool {
	of, ok := s.(storage.KindCounter)
	if ok {
		_, _, err := of.CountKinds(context.Background(), nil, 1)
		ok = !errors.Is(err, errors.ErrUnsupported)
	}
	return ok
}

// kinds returns the kinds of errors, in an order, each with a type once.
func (f *fixture) kinds(types []string, limit int) []storage.KindCount {
	f.Helper()
	some, complete, err := f.Store.(storage.KindCounter).CountKinds(f.ctx(), types, limit)
	if err != nil || !complete {
		f.Fatalf("kinds of errors: complete %v, %v", complete, err)
	}
	slices.SortFunc(some, func(a, b storage.KindCount) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Type, b.Type))
	})
	var all []storage.KindCount
	for _, k := range some {
		if n := len(all) - 1; n >= 0 && all[n].Kind == k.Kind && all[n].Type == k.Type {
			all[n].Merge(k)
		} else {
			all = append(all, k)
		}
	}
	for i := range all {
		slices.Sort(all[i].Nodes)
	}
	return all
}

func (m *model) randomError() string {
	return fmt.Sprintf("%s %d", one(m.errs, []string{"", "timeout after", "answered", "no\x00"}), 1000+m.errs.IntN(2))
}

// compareKinds compares the kinds of errors of both stores, and the rows of some of them.
func (m *model) compareKinds() {
	reference := &fixture{T: m.f.T, Store: m.want}
	var types []string
	if m.errs.IntN(2) == 0 {
		types = []string{one(m.errs, modelTypes), one(m.errs, modelTypes)}
	}
	want := reference.kinds(types, 1000)
	equal(m.f, "kinds of errors", m.f.kinds(types, 1000), want)
	ranges := []task.KindRange{{From: 1, To: 1 << 63}}
	if len(want) > 0 {
		k := one(m.errs, want).Kind
		ranges = [][]task.KindRange{ranges, {{From: k, To: k}}, {{From: k, To: k}, {From: k &^ 0xffff, To: k | 0xffff}}, {}}[m.errs.IntN(4)]
	}
	q := storage.ListQuery{Filter: storage.Filter{States: []task.State{task.Error}, Types: types}, Kinds: ranges, Limit: 1000, Scan: 1000}
	rows := reference.page(q).Tasks
	q.Limit, q.Scan = 1+m.errs.IntN(20), 1+m.errs.IntN(40)
	var got []*task.Task
	for more := true; more; more = !q.Before.IsZero() {
		page := m.f.page(q)
		got = append(got, page.Tasks...)
		q.Before = page.Next
	}
	equal(m.f, fmt.Sprintf("ids of %v", ranges), idsOf(got), idsOf(rows))
}

func one[T any](r *rand.Rand, some []T) T { return some[r.IntN(len(some))] }
