package storagetest

import (
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

var sharedCases = []testCase{
	{"unclaimed are the first rows of each queue", func(f *fixture) {
		queues, want := f.submittedQueues()
		mine := new(task.Shards)
		mine.Add(0)
		mine.Add(1)
		for _, shards := range []*task.Shards{nil, mine} {
			for _, limit := range []int{1, 2, 3, 4, 5, 100} {
				q := storage.UnclaimedQuery{Shards: shards, Limit: limit}
				var heads []task.Hint
				for more := true; more; more = q.After != (task.Queue{}) {
					out := f.unclaimed(q)
					heads = append(heads, out.Heads...)
					q.After = out.Next
				}
				var wantHeads []task.Hint
				for _, l := range queues {
					of := slices.DeleteFunc(slices.Clone(want[l]), func(h task.Hint) bool { return !shards.Has(h.Shard) })
					wantHeads = append(wantHeads, of[0])
				}
				equal(f, "heads", heads, wantHeads)
			}
		}
	}},
	{"all submitted rows are found part by part, whatever is between them", func(f *fixture) {
		queues, want := f.submittedQueues()
		var all []task.Hint
		for _, l := range queues {
			all = append(all, want[l]...)
		}
		mine, none := new(task.Shards), new(task.Shards)
		mine.Add(0)
		mine.Add(1)
		none.Add(200)
		from := func(q storage.SubmittedQuery) []task.Hint {
			got := []task.Hint{}
			for parts := 0; ; parts++ {
				page, next := f.submitted(q)
				if got = append(got, page...); next == (storage.Cursor{}) {
					return got
				}
				if q.After = next; parts > 100 {
					f.Fatalf("part %d is not the last", parts)
				}
			}
		}
		for _, shards := range []*task.Shards{nil, mine, none} {
			others := func(h task.Hint) bool { return !shards.Has(h.Shard) }
			for _, scan := range []int{1, 2, 3, 7, 100} {
				equal(f, "all", from(storage.SubmittedQuery{Shards: shards, Scan: scan}), slices.DeleteFunc(slices.Clone(all), others))
				for i, l := range queues {
					at := slices.DeleteFunc(slices.Clone(all), func(h task.Hint) bool { return others(h) || slices.Contains(queues[:i], h.Queue) })
					equal(f, "from a queue on", from(storage.SubmittedQuery{Shards: shards, Scan: scan, After: storage.Cursor{Queue: l}}), at)
					for _, p := range []uint8{7, 9} {
						better := func(h task.Hint) bool { return h.Queue == l && h.Priority < p }
						place := storage.Cursor{Queue: l, Rank: task.Rank{Priority: p, ReadyAt: math.MinInt64}}
						got := from(storage.SubmittedQuery{Shards: shards, Scan: scan, After: place})
						equal(f, "from a priority on", got, slices.DeleteFunc(slices.Clone(at), better))
					}
					behind := slices.DeleteFunc(at, func(h task.Hint) bool { return h.Queue == l })
					end := storage.Cursor{Queue: l, Rank: task.Rank{Priority: math.MaxUint8}}
					equal(f, "behind a queue", from(storage.SubmittedQuery{Shards: shards, Scan: scan, After: end}), behind)
				}
			}
		}
		if page, next := f.submitted(storage.SubmittedQuery{}); len(page) != 0 || next != (storage.Cursor{}) {
			f.Errorf("of no rows: %v, %v", page, next)
		}
	}},
	{"outdated are the versions that their owner does not run", func(f *fixture) {
		owner := f.row(task.Processing).Owner
		var refs []task.Ref
		var want []bool
		ask := func(ref task.Ref, outdated bool) { refs, want = append(refs, ref), append(want, outdated) }
		for _, state := range task.States() {
			t := f.row(state)
			f.put(t)
			ask(t.Ref(), state != task.Processing)
			ask(task.Ref{ID: t.ID, Version: t.Version + 1}, true)
			ask(task.Ref{ID: f.id(), Version: 1}, true)
		}
		for range 3 {
			t := f.row(task.Processing)
			f.put(t)
			before := t.Ref()
			f.step(t, task.Change{To: task.Submitted, At: at(1)})
			ask(t.Ref(), true)
			f.step(t, task.Change{To: task.Processing, At: at(2), Owner: owner})
			ask(t.Ref(), false)
			ask(before, true)
			other := f.row(task.Processing)
			other.Owner = task.ID{7}
			f.put(other)
			ask(other.Ref(), true)
		}
		got, err := f.Store.(storage.Shared).Outdated(f.ctx(), owner, refs...)
		if err != nil {
			f.Fatal(err)
		}
		equal(f, "outdated", got, want)
		if got, err := f.Store.(storage.Shared).Outdated(f.ctx(), owner); err != nil || len(got) != 0 {
			f.Errorf("of none: %v, %v", got, err)
		}
	}},
	{"a setting is swapped if it is what it is thought to be", func(f *fixture) {
		swap := func(old, value []byte, want bool) {
			f.Helper()
			got, err := f.Store.(storage.Shared).SwapSetting(f.ctx(), "a", old, value)
			if err != nil {
				f.Fatal(err)
			}
			equal(f, fmt.Sprintf("swapped %q for %q", old, value), got, want)
		}
		f.set("b", []byte("one"))
		one, two, empty := []byte("one"), []byte("two"), []byte{}
		swap(one, two, false)
		swap(empty, two, false)
		f.setting("a", nil)
		swap(nil, nil, true)
		swap(nil, one, true)
		f.setting("a", one)
		swap(nil, two, false)
		swap(nil, nil, false)
		swap(two, nil, false)
		f.setting("a", one)
		swap(one, two, true)
		f.setting("a", two)
		swap(two, empty, true)
		f.setting("a", empty)
		swap(nil, two, false)
		swap(empty, two, true)
		swap(two, nil, true)
		f.setting("a", nil)
		f.setting("b", one)
	}},
	{"of settings swapped by many at once none is lost", func(f *fixture) {
		s := f.Store.(interface {
			storage.Shared
			storage.Settings
		})
		var all sync.WaitGroup
		for i := range 5 {
			all.Go(func() {
				for n := 0; n < 4; {
					old, err := s.Setting(f.ctx(), "a")
					if err != nil {
						f.Error(err)
						return
					}
					done, err := s.SwapSetting(f.ctx(), "a", old, append(slices.Clone(old), byte('a'+i)))
					if err != nil {
						f.Error(err)
						return
					}
					if done {
						n++
					}
				}
			})
		}
		all.Wait()
		got, err := s.Setting(f.ctx(), "a")
		if err != nil {
			f.Fatal(err)
		}
		slices.Sort(got)
		equal(f, "setting", string(got), "aaaabbbbccccddddeeee")
	}},
	{"nothing is unclaimed where nothing is", func(f *fixture) {
		f.put(f.row(task.Processing), f.row(task.Waiting), f.row(task.Error, func(t *task.Task) { t.NextEventAt = at(0) }))
		equal(f, "unclaimed", len(f.unclaimed(storage.UnclaimedQuery{Limit: 10}).Heads), 0)
		page, next := f.submitted(storage.SubmittedQuery{Scan: 10})
		equal(f, "submitted", len(page), 0)
		equal(f, "the place to go on from", next, storage.Cursor{})
	}},
	{"orphans are the running rows of owners that are gone", func(f *fixture) {
		var want []task.ID
		ts := f.rows(40, task.Processing, func(i int, t *task.Task) {
			t.State, t.Owner = task.States()[i%7], task.ID{byte(1 + i%4)}
		})
		f.put(ts...)
		alive := []task.ID{{1}, {2}}
		for _, t := range ts {
			if t.State == task.Processing && !slices.Contains(alive, t.Owner) {
				want = append(want, t.ID)
			}
		}
		for _, scan := range []int{1, 7, 100} {
			var got []task.ID
			for after, more := (task.ID{}), true; more; {
				page, next, err := f.Store.(storage.Shared).Orphans(f.ctx(), alive, after, scan)
				if err != nil {
					f.Fatal(err)
				}
				for _, t := range page {
					t.Payload = []byte("hello") // it is not in the result
					f.same(t, f.get(t.ID))
				}
				got = append(got, idsOf(page)...)
				after, more = next, !next.IsZero()
			}
			equal(f, "orphans", got, want)
		}
	}},
}

// submittedQueues inserts rows of several queues and shards, one of which runs. It returns the
// queues in their order, and the other rows by rank.
func (f *fixture) submittedQueues() ([]task.Queue, map[task.Queue][]task.Hint) {
	f.Helper()
	queues := []task.Queue{{Type: "a"}, {Type: "a", Group: "x"}, {Type: "b"}, {Type: "\xff", Group: "\x00"}}
	want := make(map[task.Queue][]task.Hint)
	for i, l := range queues {
		for j := range 4 {
			t := f.row(task.Submitted, func(t *task.Task) {
				t.Type, t.Group, t.Priority, t.Shard = l.Type, l.Group, uint8(9-j), uint16(j)
				if j%2 == 0 {
					t.NextEventAt = at(10 + j)
				} else {
					t.NextEventAt = time.Time{}
				}
			})
			f.put(t)
			if i == 2 && j == 3 { // the first of its queue is running
				f.step(t, task.Change{To: task.Processing, At: at(1)})
			} else {
				want[l] = append([]task.Hint{t.Hint()}, want[l]...) // the later ones rank better
			}
		}
	}
	return queues, want
}

func (f *fixture) submitted(q storage.SubmittedQuery) ([]task.Hint, storage.Cursor) {
	f.Helper()
	page, next, err := f.Store.(storage.Shared).Submitted(f.ctx(), q)
	if err != nil {
		f.Fatal(err)
	}
	return page, next
}

func (f *fixture) unclaimed(q storage.UnclaimedQuery) storage.UnclaimedPage {
	f.Helper()
	out, err := f.Store.(storage.Shared).Unclaimed(f.ctx(), q)
	if err != nil {
		f.Fatal(err)
	}
	return out
}
