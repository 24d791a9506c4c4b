package storagetest

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

var queryCases = []testCase{
	{"due are the rows of the state whose time has come, the earliest first", func(f *fixture) {
		offsets := []int{30, 10, 20, 10, 40}
		ts := f.rows(len(offsets), task.Waiting, func(i int, t *task.Task) {
			t.NextEventAt, t.Group, t.Shard, t.Version = at(offsets[i]), "g", uint16(i), uint64(i+1)
		})
		never := f.row(task.Waiting)
		other := f.row(task.Processing, func(t *task.Task) { t.NextEventAt = at(10) })
		f.put(append(ts, never, other)...)
		want := []storage.Due{}
		for _, i := range []int{1, 3, 2, 0} {
			want = append(want, storage.Due{Trigger: ts[i].Trigger(), At: ts[i].NextEventAt})
		}
		equal(f, "due", f.due(storage.DueQuery{State: task.Waiting, Before: at(30), Limit: 10}), want)
		equal(f, "due one microsecond earlier", f.due(storage.DueQuery{State: task.Waiting, Before: at(30).Add(-time.Microsecond), Limit: 10}), want[:3])
		equal(f, "the first two", f.due(storage.DueQuery{State: task.Waiting, Before: at(30), Limit: 2}), want[:2])
		equal(f, "those after the second", f.due(storage.DueQuery{State: task.Waiting, After: want[1], Before: at(30), Limit: 9}), want[2:])
		equal(f, "none", len(f.due(storage.DueQuery{State: task.Waiting, Before: at(30)})), 0)
		equal(f, "none of before", len(f.due(storage.DueQuery{State: task.Waiting, Before: at(9), Limit: 9})), 0)
		equal(f, "none behind the end", len(f.due(storage.DueQuery{State: task.Waiting, After: want[3], Before: at(20), Limit: 9})), 0)
	}},
	{"a row without a time is never due", func(f *fixture) {
		for _, s := range task.States() {
			f.put(f.row(s))
		}
		for _, s := range task.States() {
			got := f.due(storage.DueQuery{State: s, Before: time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC), Limit: 9})
			equal(f, "due in state "+s.String(), len(got), 0)
		}
	}},
	{"a row of any state can be due", func(f *fixture) {
		for _, s := range task.States() {
			t := f.row(s, func(t *task.Task) { t.NextEventAt = at(-1e6) })
			f.put(t)
			got := f.due(storage.DueQuery{State: s, Before: at(0), Limit: 9})
			equal(f, "due in state "+s.String(), got, []storage.Due{{Trigger: t.Trigger(), At: t.NextEventAt}})
		}
	}},
	{"asking what is due changes nothing", func(f *fixture) {
		t := f.row(task.Waiting, func(t *task.Task) { t.NextEventAt = at(1) })
		f.put(t)
		q := storage.DueQuery{State: task.Waiting, Before: at(2), Limit: 9}
		equal(f, "the second answer", f.due(q), f.due(q))
		f.same(f.get(t.ID), t)
	}},
	{"pages of due rows have no gaps and no repeats while rows change", func(f *fixture) {
		ts := f.rows(40, task.Waiting, func(i int, t *task.Task) { t.NextEventAt = at(i / 3) })
		f.put(ts...)
		seen := make(map[task.ID]int)
		q := storage.DueQuery{State: task.Waiting, Before: at(1000), Limit: 7}
		for page := f.due(q); len(page) > 0; page = f.due(q) {
			for i, d := range page {
				seen[d.ID]++
				if i%2 == 0 { // it leaves the index, before the position of the next page
					f.swap(task.Change{Ref: d.Ref, To: task.Submitted, At: at(1)})
				}
			}
			q.After = page[len(page)-1]
		}
		for _, t := range ts {
			equal(f, "times a row was seen", seen[t.ID], 1)
		}
	}},
	{"ready are the submitted rows of a queue in the order of their rank", func(f *fixture) {
		ts := f.rows(60, task.Submitted, func(i int, t *task.Task) {
			t.Priority = uint8(i*7) % 10
			t.ReadyAt = epoch.Add(time.Duration(i*31%5-2) * time.Microsecond)
			t.Group, t.Shard = "partner", uint16(i)
		})
		ts[3].NextEventAt = at(5)
		f.put(ts...)
		f.put(f.row(task.Submitted), f.row(task.Waiting, func(t *task.Task) { t.Group = "partner" }))
		slices.SortFunc(ts, func(a, b *task.Task) int { return a.Rank().Compare(b.Rank()) })
		want := make([]task.Trigger, len(ts))
		for i, t := range ts {
			want[i] = t.Trigger()
		}
		q := storage.ReadyQuery{Queue: ts[0].Queue(), Limit: 1000}
		equal(f, "ready", f.ready(q), want)
		q.Limit = 7
		var pages []task.Trigger
		for page := f.ready(q); len(page) > 0; page = f.ready(q) {
			pages = append(pages, page...)
			q.After = &page[len(page)-1].Rank
		}
		equal(f, "ready by pages", pages, want)
		every := new(task.Shards)
		for _, t := range ts {
			every.Add(t.Shard)
		}
		for _, q.Shards = range []*task.Shards{nil, every} {
			for p := range uint8(10) {
				q.After, q.Limit = &task.Rank{Priority: p, ReadyAt: math.MinInt64}, 1000
				from := slices.IndexFunc(want, func(tr task.Trigger) bool { return tr.Priority >= p })
				equal(f, "ready from a priority on", f.ready(q), want[from:])
			}
			q.After = &task.Rank{Priority: 10, ReadyAt: math.MinInt64}
			equal(f, "ready behind all priorities", len(f.ready(q)), 0)
		}
		q.After, q.Limit = nil, 0
		equal(f, "none", len(f.ready(q)), 0)
	}},
	{"pages of ready rows go on from where they were while rows change", func(f *fixture) {
		f.together()
		ts := f.rows(30, task.Submitted, nil)
		f.put(ts...)
		q := storage.ReadyQuery{Queue: ts[0].Queue(), Limit: 4}
		var seen []task.ID
		for page := f.ready(q); len(page) > 0; page = f.ready(q) {
			for _, tr := range page {
				seen = append(seen, tr.ID)
				f.swap(task.Change{Ref: tr.Ref, To: task.Processing, At: at(1)})
			}
			q.After = &page[len(page)-1].Rank
		}
		equal(f, "seen", seen, idsOf(ts))
	}},
	{"a row is ready while it is submitted and no longer", func(f *fixture) {
		t := f.row(task.Submitted)
		f.put(t)
		q := storage.ReadyQuery{Queue: t.Queue(), Limit: 9}
		equal(f, "ready", f.ready(q), []task.Trigger{t.Trigger()})
		f.step(t, task.Change{To: task.Processing, At: at(1)})
		equal(f, "ready when grabbed", len(f.ready(q)), 0)
		f.step(t, task.Change{To: task.Submitted, At: at(2), ReadyAt: at(2)})
		equal(f, "ready again", f.ready(q), []task.Trigger{t.Trigger()})
		f.step(t, task.Change{To: task.Waiting, At: at(3)})
		f.step(t, task.Change{To: task.Submitted, At: at(4)})
		equal(f, "ready a third time", f.ready(q), []task.Trigger{t.Trigger()})
	}},
	{"queues are those of submitted rows, in order", func(f *fixture) {
		queues := oddQueues()
		for i, l := range queues {
			for range 1 + i%3 {
				f.put(f.row(task.Submitted, func(t *task.Task) { t.Type, t.Group = l.Type, l.Group }))
			}
		}
		f.put(f.row(task.Waiting, func(t *task.Task) { t.Type = "waits" }))
		slices.SortFunc(queues, compareQueue)
		equal(f, "queues", f.queues(task.Queue{}, 1000), queues)
		for i, l := range queues {
			equal(f, "queues after one", f.queues(l, 1000), append([]task.Queue{}, queues[i+1:]...))
		}
		var pages []task.Queue
		for page := f.queues(task.Queue{}, 4); len(page) > 0; page = f.queues(page[len(page)-1], 4) {
			pages = append(pages, page...)
		}
		equal(f, "queues by pages", pages, queues)
		equal(f, "queues after one that has none", f.queues(task.Queue{Type: "\xff\xff\xff"}, 9), []task.Queue{})
		equal(f, "no queues", f.queues(task.Queue{}, 0), []task.Queue{})
	}},
	{"the rows of a queue are its own, whatever its name", func(f *fixture) {
		for _, l := range oddQueues() {
			t := f.row(task.Submitted, func(t *task.Task) { t.Type, t.Group = l.Type, l.Group })
			f.put(t)
			equal(f, "ready", f.ready(storage.ReadyQuery{Queue: l, Limit: 9}), []task.Trigger{t.Trigger()})
		}
	}},
	{"a queue is gone with its last row", func(f *fixture) {
		t := f.row(task.Submitted)
		f.put(t)
		equal(f, "queues", f.queues(task.Queue{}, 9), []task.Queue{t.Queue()})
		f.step(t, task.Change{To: task.Processing, At: at(1)})
		equal(f, "queues when grabbed", f.queues(task.Queue{}, 9), []task.Queue{})
	}},
	{"rows of some shards are found among the others", func(f *fixture) {
		f.together()
		for _, state := range []task.State{task.Submitted, task.Waiting, task.Processing, task.Done, task.Error} {
			for _, s := range []uint16{0, 7, 8, 63, 64, 128, 255} {
				f.put(f.row(state, func(t *task.Task) { t.Shard, t.NextEventAt = s, at(int(s)) }))
			}
		}
		mine := new(task.Shards)
		for _, s := range []uint16{7, 64, 255} {
			mine.Add(s)
		}
		none := new(task.Shards)
		for _, limit := range []int{1, 2, 9} {
			for _, state := range []task.State{task.Submitted, task.Waiting, task.Processing, task.Done, task.Error} {
				var got []uint16
				q := storage.DueQuery{State: state, Shards: mine, Before: at(1000), Limit: limit}
				for page := f.due(q); len(page) > 0; page = f.due(q) {
					for _, d := range page {
						got = append(got, d.Shard)
					}
					q.After = page[len(page)-1]
				}
				equal(f, "shards due", got, []uint16{7, 64, 255})
				q.Shards = none
				equal(f, "due of no shard", len(f.due(q)), 0)
			}
			var got []uint16
			q := storage.ReadyQuery{Queue: f.row(task.Submitted).Queue(), Shards: mine, Limit: limit}
			for page := f.ready(q); len(page) > 0; page = f.ready(q) {
				for _, tr := range page {
					got = append(got, tr.Shard)
				}
				q.After = &page[len(page)-1].Rank
			}
			equal(f, "shards ready", got, []uint16{7, 64, 255})
			q.Shards = none
			equal(f, "ready of no shard", len(f.ready(q)), 0)
		}
	}},
	{"ids sort by time", func(f *fixture) {
		ts := f.rows(20, task.Waiting, func(i int, t *task.Task) { t.NextEventAt = at(1) })
		shuffled := slices.Clone(ts)
		slices.Reverse(shuffled)
		f.put(shuffled...)
		var got []task.ID
		for _, d := range f.due(storage.DueQuery{State: task.Waiting, Before: at(1), Limit: 99}) {
			got = append(got, d.ID)
		}
		equal(f, "order", got, idsOf(ts))
	}},
}

// oddQueues returns queues with names that are easily confused.
func oddQueues() []task.Queue {
	return []task.Queue{
		{Type: "a"},
		{Type: "a", Group: "b"},
		{Type: "ab"},
		{Type: "a\x00", Group: "b"},
		{Type: "a", Group: "\x00b"},
		{Type: "a\x00b"},
		{Type: "a", Group: "\x00"},
		{Type: "a", Group: "\x00\x00"},
		{Type: "a\x00\x00"},
		{Type: "a\x00\xff"},
		{Type: "a\xff"},
		{Type: "a", Group: "\xff"},
		{Type: "a", Group: "\xff\xff\xff"},
		{Type: "a\x01"},
		{Type: "日本", Group: "é"},
		{Type: "", Group: "only a group"},
		{Type: "mail", Group: task.GroupOf("x", "y")},
	}
}

func compareQueue(a, b task.Queue) int {
	return cmp.Or(cmp.Compare(a.Type, b.Type), cmp.Compare(a.Group, b.Group))
}

// due, ready and queues run a query; no answer is an empty one.

func (f *fixture) due(q storage.DueQuery) []storage.Due {
	f.Helper()
	got, err := f.Due(f.ctx(), q)
	if err != nil {
		f.Fatal(err)
	}
	return append([]storage.Due{}, got...)
}

func (f *fixture) ready(q storage.ReadyQuery) []task.Trigger {
	f.Helper()
	got, err := f.Ready(f.ctx(), q)
	if err != nil {
		f.Fatal(err)
	}
	return append([]task.Trigger{}, got...)
}

func (f *fixture) queues(after task.Queue, limit int) []task.Queue {
	f.Helper()
	got, err := f.Queues(f.ctx(), after, limit)
	if err != nil {
		f.Fatal(err)
	}
	return append([]task.Queue{}, got...)
}
