package storagetest

import (
	"cmp"
	"math/rand/v2"
	"slices"

	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

// inheritCases are about the priorities that heads of ordering keys inherit.
var inheritCases = []testCase{
	{"a head runs with the highest priority of the ready rows behind it, before it runs with its own", func(f *fixture) {
		q, other := f.queue(), f.queue()
		head, urgent := q.heir(task.Submitted, 1, 7), q.heir(task.Submitted, 2, 2)
		between := other.heir(task.Submitted, 1, 4)
		f.do(&storage.Batch{Insert: []*task.Task{head}})
		f.do(&storage.Batch{Insert: []*task.Task{between}})
		equal(f, "ready", f.readyIDs(), []task.ID{between.ID, head.ID})
		out := f.do(&storage.Batch{Insert: []*task.Task{urgent}})
		equal(f, "heads", priorities(out.Heads), map[task.ID]uint8{head.ID: 2})
		equal(f, "ready", f.readyIDs(), []task.ID{head.ID, between.ID})
		got := f.get(head.ID)
		equal(f, "priority", got.Priority, uint8(7))
		equal(f, "boost", got.Boost, uint8(5))
		equal(f, "version", got.Version, head.Version)
		q.grab(head)
		equal(f, "ready", f.readyIDs(), []task.ID{between.ID})
		equal(f, "priority of a head that runs", head.Priority, uint8(7))
		q.change(head, task.Change{To: task.Done, Outcome: task.Completed})
		equal(f, "boost of a row that has ended", head.Boost, uint8(0))
		equal(f, "priority of a row that has ended", head.Priority, uint8(7))
		equal(f, "ready", f.readyIDs(), []task.ID{urgent.ID, between.ID})
		equal(f, "boost of the next head", f.get(urgent.ID).Boost, uint8(0))
		q.runs(f.get(urgent.ID))
	}},
	{"rows of a batch lend before the head of their key is known", func(f *fixture) {
		q := f.queue()
		low, urgent, head := q.heir(task.Submitted, 2, 8), q.heir(task.Submitted, 3, 0), q.heir(task.Submitted, 1, 9)
		out := f.do(&storage.Batch{Insert: []*task.Task{low, urgent, head}})
		equal(f, "heads", priorities(out.Heads), map[task.ID]uint8{head.ID: 0})
		equal(f, "boost that is written to the row", head.Boost, uint8(9))
		f.same(f.get(head.ID), head)
		q.grab(head)
		out = q.change(head, task.Change{To: task.Done, Outcome: task.Completed})
		equal(f, "heads", priorities(out.Heads), map[task.ID]uint8{low.ID: 0})
		q.runs(f.get(low.ID))
		equal(f, "boost of the urgent row", f.get(urgent.ID).Boost, uint8(0))
		q.runs(f.get(urgent.ID))
	}},
	{"what is not lent any more is given back", func(f *fixture) {
		for name, c := range map[string]task.Change{
			"cancelled": {To: task.Cancelled}, "an error": {To: task.Error, Leaves: true},
			"it waits": {To: task.Waiting, NextEventAt: at(90), ReadyAt: at(90)},
			"replaced": {To: task.Submitted, Replace: &task.Replace{Priority: 6}},
		} {
			q := f.queue()
			head, urgent := q.heir(task.Submitted, 1, 6), q.heir(task.Submitted, 2, 1)
			f.do(&storage.Batch{Insert: []*task.Task{head, urgent}})
			equal(f, name+": boost", f.get(head.ID).Boost, uint8(5))
			out := q.change(urgent, c)
			equal(f, name+": heads", priorities(out.Heads), map[task.ID]uint8{head.ID: 6})
			equal(f, name+": boost", f.get(head.ID).Boost, uint8(0))
			q.runs(f.get(head.ID))
		}
	}},
	{"a row lends when it is ready, and to a head that is ready", func(f *fixture) {
		q := f.queue()
		head, later := q.heir(task.Submitted, 1, 6), q.heir(task.Waiting, 50, 1)
		later.NextEventAt = at(50)
		f.do(&storage.Batch{Insert: []*task.Task{head, later}})
		equal(f, "boost", f.get(head.ID).Boost, uint8(0))
		q.grab(head)
		q.change(later, task.Change{To: task.Submitted})
		equal(f, "boost of a head that runs", f.get(head.ID).Boost, uint8(0))
		out := q.change(head, task.Change{To: task.Waiting, Outcome: task.Errored, NextEventAt: at(60)})
		equal(f, "heads that are ready", len(out.Heads), 0)
		out = q.change(head, task.Change{To: task.Submitted})
		equal(f, "heads", priorities(out.Heads), map[task.ID]uint8{head.ID: 1})
		equal(f, "boost of the row that a change returns", out.Swapped[0].Boost, uint8(5))
		equal(f, "boost", head.Boost, uint8(5))
		q.grab(head)
		out = q.change(head, task.Change{To: task.Submitted, Outcome: task.Crashed})
		equal(f, "heads", priorities(out.Heads), map[task.ID]uint8{head.ID: 1})
		q.runs(f.get(head.ID), f.get(later.ID))
	}},
	{"a head that gives its seat up runs with its own priority later, and lends that", func(f *fixture) {
		q := f.queue()
		head, urgent, last := q.heir(task.Submitted, 1, 6), q.heir(task.Submitted, 2, 1), q.heir(task.Submitted, 3, 8)
		f.do(&storage.Batch{Insert: []*task.Task{head, urgent, last}})
		q.grab(head)
		q.change(head, task.Change{To: task.Waiting, Outcome: task.Errored, ReadyAt: at(90), NextEventAt: at(90)})
		equal(f, "priority and boost", [2]uint8{head.Priority, head.Boost}, [2]uint8{6, 0})
		q.change(head, task.Change{To: task.Submitted})
		q.runs(f.get(urgent.ID))
		equal(f, "boost of the last", f.get(last.ID).Boost, uint8(2))
		early := q.heir(task.Submitted, 0, 9)
		out := f.do(&storage.Batch{Insert: []*task.Task{early}})
		equal(f, "heads", priorities(out.Heads), map[task.ID]uint8{early.ID: 6})
		equal(f, "boost of the head before", f.get(last.ID).Boost, uint8(0))
		q.runs(f.get(early.ID), f.get(last.ID), f.get(head.ID))
	}},
	{"rows of types that do not inherit neither lend nor inherit", func(f *fixture) {
		q := f.queue()
		head, plain, heir, urgent := q.row(task.Submitted, 1), q.row(task.Submitted, 3), q.heir(task.Submitted, 2, 7), q.heir(task.Submitted, 4, 3)
		head.Priority, plain.Priority = 5, 0
		f.do(&storage.Batch{Insert: []*task.Task{head, plain, heir, urgent}})
		equal(f, "boost", f.get(head.ID).Boost, uint8(0))
		q.runs(f.get(head.ID))
		equal(f, "boost", f.get(heir.ID).Boost, uint8(4))
	}},
	{"a head is not asked for a lower priority than its own", func(f *fixture) {
		q := f.queue()
		head := q.heir(task.Submitted, 1, 2)
		f.do(&storage.Batch{Insert: []*task.Task{head, q.heir(task.Submitted, 2, 5), q.heir(task.Submitted, 3, 2)}})
		equal(f, "boost", f.get(head.ID).Boost, uint8(0))
		head = f.get(head.ID)
		replaced := q.change(head, task.Change{To: task.Submitted, Replace: &task.Replace{Priority: 8}})
		equal(f, "heads", priorities(replaced.Heads), map[task.ID]uint8{head.ID: 2})
		equal(f, "priority and boost", [2]uint8{head.Priority, head.Boost}, [2]uint8{8, 6})
	}},
	{"keys whose head lacks a priority, or has one that is not lent any more, are found", func(f *fixture) {
		q, fine := f.queue(), f.queue()
		head, urgent, last := q.heir(task.Submitted, 1, 6), q.heir(task.Submitted, 2, 1), q.heir(task.Submitted, 3, 9)
		f.do(&storage.Batch{Insert: []*task.Task{head, last}})
		f.do(&storage.Batch{Insert: []*task.Task{fine.heir(task.Submitted, 1, 6), fine.heir(task.Submitted, 2, 1)}})
		equal(f, "keys", len(f.headless(10)), 0)
		q.put(urgent)
		equal(f, "keys", f.headless(10), []string{q.key})
		heads, err := f.Promote(f.ctx(), q.key)
		if err != nil {
			f.Fatal(err)
		}
		equal(f, "heads", priorities(heads), map[task.ID]uint8{head.ID: 1})
		equal(f, "keys", len(f.headless(10)), 0)
		f.swap(task.Change{Ref: f.get(urgent.ID).Ref(), To: task.Cancelled, At: at(30)})
		equal(f, "keys", f.headless(10), []string{q.key})
	}},
	{"a row that is inserted with a boost has none", func(f *fixture) {
		q := f.queue()
		head := q.heir(task.Submitted, 1, 6)
		head.Turn, head.Boost = task.Head, 5
		q.put(head)
		equal(f, "boost that is written to the row", head.Boost, uint8(0))
		f.same(f.get(head.ID), head)
		q.runs(head)
	}},
	{"the next head is grabbed with the priority that it inherits", func(f *fixture) {
		q := f.queue()
		head, next, urgent := q.heir(task.Submitted, 1, 5), q.heir(task.Submitted, 2, 8), q.heir(task.Submitted, 3, 5)
		f.do(&storage.Batch{Insert: []*task.Task{head, next, urgent}})
		q.grab(head)
		end := task.Change{Ref: head.Ref(), To: task.Done, At: at(30), Outcome: task.Completed, OrderingKey: q.key}
		out := f.do(&storage.Batch{Swap: []task.Change{end}, Heads: []storage.HeadGrab{{Queue: head.Queue(), Priority: 5, Grab: grabOfHead(30)}}})
		if out.Grabbed == nil {
			equal(f, "heads", priorities(out.Heads), map[task.ID]uint8{next.ID: 5})
			return
		}
		equal(f, "grabbed", out.Grabbed[0].ID, next.ID)
		f.same(out.Grabbed[0], f.get(next.ID))
	}},
	{"a thousand rows behind a head are asked in any order", func(f *fixture) {
		q := f.queue()
		rows := make([]*task.Task, 1000)
		for i := range rows {
			rows[i] = q.heir(task.Submitted, i, uint8(3+rand.IntN(7)))
		}
		f.do(&storage.Batch{Insert: rows})
		f.reopenIfPossible()
		for n := 0; n < 20; n++ {
			head := f.get(rows[n].ID)
			lends := slices.MinFunc(rows[n+1:], func(a, b *task.Task) int { return cmp.Compare(a.Priority, b.Priority) })
			equal(f, "priority", head.Rank().Priority, min(lends.Priority, head.Priority))
			q.runs(head)
		}
	}},
}

// heir returns a row of the key and of a type that inherits.
func (q *orderQueue) heir(s task.State, second int, priority uint8) *task.Task {
	t := q.row(s, second)
	t.Inherits, t.Priority = true, priority
	return t
}

// priorities returns with which priorities heads run.
func priorities(hs []task.Hint) map[task.ID]uint8 {
	of := make(map[task.ID]uint8, len(hs))
	for _, h := range hs {
		of[h.ID] = h.Priority
	}
	return of
}
