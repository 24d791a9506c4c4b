package storagetest

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

var insertCases = []testCase{
	{"a row comes back as it was inserted", func(f *fixture) {
		for name, edit := range remarkable() {
			want := f.row(task.Submitted, edit)
			f.put(want)
			if d := difference(f.get(want.ID), want); d != "" {
				f.Errorf("%s: %s", name, d)
			}
		}
	}},
	{"rows that were inserted together come back as they were", func(f *fixture) {
		var want []*task.Task
		for _, edit := range remarkable() {
			want = append(want, f.row(task.Waiting, edit))
		}
		f.put(want...)
		for _, w := range want {
			f.same(f.get(w.ID), w)
		}
	}},
	{"a row that does not exist is not found", func(f *fixture) {
		if _, err := f.Get(f.ctx(), task.ID{1}); !errors.Is(err, task.ErrNotFound) {
			f.Fatalf("got %v, want task.ErrNotFound", err)
		}
	}},
	{"an id is inserted once", func(f *fixture) {
		first := f.row(task.Submitted)
		f.put(first)
		again := first.Clone()
		again.Payload, again.State = []byte("other"), task.Waiting
		done, err := f.Insert(f.ctx(), again)
		if err != nil {
			f.Fatal(err)
		}
		equal(f, "in the way", done, []storage.Inserted{{Existing: first.ID}})
		f.same(f.get(first.ID), first)
	}},
	{"an id twice in one call is inserted once", func(f *fixture) {
		first := f.row(task.Submitted)
		again := first.Clone()
		again.Payload = []byte("other")
		done, err := f.Insert(f.ctx(), first, again)
		if err != nil {
			f.Fatal(err)
		}
		equal(f, "in the way", done, []storage.Inserted{{}, {Existing: first.ID}})
		f.same(f.get(first.ID), first)
	}},
	{"an old id that is taken is noticed whatever was inserted since", func(f *fixture) {
		old := f.row(task.Waiting)
		f.put(old)
		f.put(f.rows(50, task.Submitted, nil)...)
		done, err := f.Insert(f.ctx(), old.Clone())
		if err != nil {
			f.Fatal(err)
		}
		equal(f, "in the way", done, []storage.Inserted{{Existing: old.ID}})
	}},
	{"an id smaller than the others can be inserted", func(f *fixture) {
		f.put(f.rows(3, task.Submitted, nil)...)
		early := f.row(task.Submitted, func(t *task.Task) { t.ID = task.ID{0, 0, 1} })
		f.put(early)
		f.same(f.get(early.ID), early)
	}},
	{"a key is inserted once per type and names the task that has it", func(f *fixture) {
		f.together()
		keyed := func(t *task.Task) { t.Key = "invoice-1" }
		first, second := f.row(task.Submitted, keyed), f.row(task.Submitted, keyed)
		third := f.row(task.Waiting, keyed)
		done, err := f.Insert(f.ctx(), first, second)
		if err != nil {
			f.Fatal(err)
		}
		equal(f, "in the way", done, []storage.Inserted{{}, {Existing: first.ID}})
		if done, err = f.Insert(f.ctx(), third); err != nil {
			f.Fatal(err)
		}
		equal(f, "in the way", done, []storage.Inserted{{Existing: first.ID}})
		for _, t := range []*task.Task{second, third} {
			if _, err := f.Get(f.ctx(), t.ID); !errors.Is(err, task.ErrNotFound) {
				f.Fatalf("the row in whose way another was exists: %v", err)
			}
		}
	}},
	{"a key is taken until its row is deleted, whatever becomes of the row", func(f *fixture) {
		f.together()
		keyed := func(t *task.Task) { t.Key = "invoice-1" }
		first, second := f.row(task.Processing, keyed), f.row(task.Submitted, keyed)
		f.put(first)
		done := f.swap(task.Change{Ref: first.Ref(), To: task.Done, At: at(1)})
		got, err := f.Insert(f.ctx(), second)
		if err != nil {
			f.Fatal(err)
		}
		equal(f, "in the way", got, []storage.Inserted{{Existing: first.ID}})
		if _, err := f.Delete(f.ctx(), done.Ref()); err != nil {
			f.Fatal(err)
		}
		f.put(second)
	}},
	{"the same key of another type is another key", func(f *fixture) {
		// The concatenation of type and key is the same in several of these.
		for _, k := range [][2]string{{"a", "b"}, {"ab", ""}, {"", "ab"}, {"a\x00", "b"}, {"a", "\x00b"}, {"a\x00b", "c"}, {"a", "b\x00c"}, {"a", "\xffb"}} {
			f.put(f.row(task.Submitted, func(t *task.Task) { t.Type, t.Key = k[0], k[1] }))
		}
	}},
	{"the key of a row with an ordering key is unique among the rows of that", func(f *fixture) {
		f.together()
		orders := []string{f.queue().key, f.queue().key, f.queue().key}
		of := func(typ, order, key string) *task.Task {
			return f.row(task.Submitted, func(t *task.Task) { t.Type, t.OrderingKey, t.Key = typ, order, key })
		}
		var rows []*task.Task
		for _, typ := range []string{"mail", "m"} {
			for _, order := range append(orders, "") {
				// The concatenation of ordering key and key is the same in several of these.
				for _, key := range []string{"k", orders[0], orders[0] + "k", orders[0] + "\x00k", "\x00k"} {
					rows = append(rows, of(typ, order, key))
				}
			}
		}
		f.put(rows...)
		for round := range 3 { // while they are live, when some have ended, and when these are deleted
			var again []*task.Task
			var want []storage.Inserted
			for i, t := range rows {
				again = append(again, of(t.Type, t.OrderingKey, t.Key))
				want = append(want, storage.Inserted{Existing: t.ID})
				if round == 2 && i%3 == 0 {
					want[i] = storage.Inserted{}
				}
			}
			done, err := f.Insert(f.ctx(), again...)
			if err != nil {
				f.Fatal(err)
			}
			equal(f, "in the way", done, want)
			f.check()
			for i := 0; i < len(rows) && round < 2; i += 3 {
				if t := rows[i]; round == 0 {
					f.step(t, task.Change{To: task.Cancelled, At: at(1), NextEventAt: at(1000)})
				} else {
					f.remove(t.Ref())
				}
			}
			f.check()
		}
	}},
	{"a key that was asked for in vain is not taken", func(f *fixture) {
		f.together()
		order := f.queue().key
		for _, o := range []string{"", order} {
			first := f.row(task.Submitted, func(t *task.Task) { t.OrderingKey, t.Key = o, "k" })
			f.put(first)
			other := f.row(task.Submitted, func(t *task.Task) { t.ID, t.OrderingKey, t.Key = first.ID, o, "other" })
			if done, err := f.Insert(f.ctx(), other); err != nil || done[0].Existing != first.ID {
				f.Fatalf("got %+v, %v", done, err)
			}
			f.put(f.row(task.Submitted, func(t *task.Task) { t.OrderingKey, t.Key = o, "other" }))
		}
	}},
	{"no key is never in the way", func(f *fixture) {
		f.put(f.row(task.Submitted), f.row(task.Submitted))
	}},
	{"rows are numbered in the order of their insertion", func(f *fixture) {
		f.together()
		var newest uint64
		for range 3 {
			batch := f.rows(4, task.Submitted, nil)
			batch[0].Seq = 1 << 40
			f.put(batch...)
			for _, t := range batch {
				if t.Seq <= newest {
					f.Fatalf("number %d follows %d", t.Seq, newest)
				}
				newest = t.Seq
				equal(f, "stored number", f.get(t.ID).Seq, t.Seq)
			}
		}
	}},
	{"what was handed in may be changed afterwards", func(f *fixture) {
		given := f.row(task.Submitted, func(t *task.Task) {
			t.Payload = []byte("payload")
			t.Headers = map[string]string{"a": "b"}
			t.History = []task.Attempt{{Number: 1, Error: "one"}}
		})
		f.put(given)
		want := given.Clone()
		given.Payload[0], given.Headers["a"], given.History[0].Error = 'X', "X", "X"
		f.same(f.get(want.ID), want)
		grabbed := f.swap(task.Change{Ref: want.Ref(), To: task.Processing, At: at(1)})
		equal(f, "payload", string(grabbed.Payload), "payload")
		equal(f, "headers", grabbed.Headers, want.Headers)
	}},
	{"what was handed out may be changed", func(f *fixture) {
		want := f.row(task.Submitted, func(t *task.Task) {
			t.Headers = map[string]string{"a": "b"}
			t.History = []task.Attempt{{Number: 1, Error: "one"}}
		})
		f.put(want)
		spoil := func(t *task.Task) {
			t.Payload[0], t.Headers["a"], t.History[0].Error = 'X', "X", "X"
		}
		spoil(f.get(want.ID))
		f.same(f.get(want.ID), want)
		grab := task.Change{Ref: want.Ref(), To: task.Processing, At: at(1)}
		spoil(f.swap(grab))
		grab.Apply(want)
		f.same(f.get(want.ID), want)
	}},
	{"nothing to do is done", func(f *fixture) {
		f.put()
		if ts, err := f.Swap(f.ctx()); err != nil || len(ts) != 0 {
			f.Fatalf("got %v, %v", ts, err)
		}
		if gone, err := f.Delete(f.ctx()); err != nil || len(gone) != 0 {
			f.Fatalf("got %v, %v", gone, err)
		}
	}},
}

// remarkable returns unusual values of a row, which stores may get wrong.
func remarkable() map[string]func(*task.Task) {
	odd := "\x00 \xff\x00\xff \x00\x00 é 日本 \x1f"
	return map[string]func(*task.Task){
		"plain":            func(t *task.Task) {},
		"no payload":       func(t *task.Task) { t.Payload = nil },
		"empty payload":    func(t *task.Task) { t.Payload = []byte{} },
		"payload of 300 B": func(t *task.Task) { t.Payload = pattern(300) },
		"payload of 3 kB":  func(t *task.Task) { t.Payload = pattern(3000) },
		"payload of 11 MB": func(t *task.Task) { t.Payload = pattern(11 << 20) },
		"result":           func(t *task.Task) { t.Result = []byte("r") },
		"result of 1 MB":   func(t *task.Task) { t.Result = pattern(1 << 20) },
		"tombstone": func(t *task.Task) {
			t.State, t.Key, t.Payload, t.Tombstone = task.Done, "k", nil, true
		},
		"odd type":         func(t *task.Task) { t.Type = odd },
		"odd group":        func(t *task.Task) { t.Group = odd },
		"odd key":          func(t *task.Task) { t.Key = odd },
		"group of GroupOf": func(t *task.Task) { t.Group = task.GroupOf("a", "", "b\x1f") },
		"ordering key":     func(t *task.Task) { t.OrderingKey = "account 7" },
		"head":             func(t *task.Task) { t.OrderingKey, t.Turn = odd, task.Head },
		"behind":           func(t *task.Task) { t.OrderingKey, t.Turn = odd, task.Behind },
		"heir":             func(t *task.Task) { t.OrderingKey, t.Turn, t.Inherits = odd, task.Behind, true },
		"heir and headers": func(t *task.Task) {
			t.OrderingKey, t.Inherits, t.Headers = odd, true, map[string]string{"": "\x00", "a": ""}
		},
		"headers":         func(t *task.Task) { t.Headers = map[string]string{"": "", "traceparent": "00-4bf9", odd: odd} },
		"last shard":      func(t *task.Task) { t.Shard = 65535 },
		"priorities":      func(t *task.Task) { t.Priority = task.LowestPriority },
		"largest numbers": func(t *task.Task) { t.Version, t.Attempt, t.Crashes = 1<<64-1, 1<<32-1, 1<<32-1 },
		"microseconds": func(t *task.Task) {
			t.CreatedAt = epoch.Add(time.Microsecond)
			t.ReadyAt = epoch.Add(-time.Microsecond)
		},
		"before 1970": func(t *task.Task) { t.CreatedAt = time.Unix(-1e9, 0).UTC(); t.ReadyAt = t.CreatedAt },
		"far future":  func(t *task.Task) { t.NextEventAt = time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC) },
		"no times":    func(t *task.Task) { t.CreatedAt, t.ReadyAt, t.UpdatedAt = time.Time{}, time.Time{}, time.Time{} },
		"all times":   func(t *task.Task) { t.NextEventAt, t.ExpiresAt, t.StartedAt = at(1), at(2), at(3) },
		"owner":       func(t *task.Task) { t.Owner = task.ID{1, 2, 3} },
		"node":        func(t *task.Task) { t.Node = odd },
		"error":       func(t *task.Task) { t.LastError = "connection refused" },
		"progress": func(t *task.Task) {
			t.Notes = task.NewNotes(task.Progress{Done: 1<<64 - 1, Total: 1 << 63, Message: odd, At: at(4)}, t.Checkpoint())
		},
		"signals":         func(t *task.Task) { t.Signals = signals(10) },
		"signals of 3 kB": func(t *task.Task) { t.Signals = signals(3000) },
		"a wait": func(t *task.Task) {
			t.State, t.Signals = task.Waiting, &task.Signals{Awaits: []string{"paid", "näme"}, Patience: time.Minute, Seen: []task.ID{{1}}}
		},
		"a parent":                func(t *task.Task) { t.Parent = &task.Parent{ID: task.ID{7, 15: 8}, Name: odd, Index: 1<<32 - 1} },
		"children":                func(t *task.Task) { t.Children = children(10) },
		"children of 3 kB":        func(t *task.Task) { t.Children = children(24_000) },
		"a wait for children":     func(t *task.Task) { waitingForChildren(t) },
		"search values":           func(t *task.Task) { t.Search = []task.SearchValue{task.Unread, 1, 1 << 63, 1<<64 - 1} },
		"a timeout":               func(t *task.Task) { t.Signals = &task.Signals{Wake: task.Wake{By: task.ByTimeout}} },
		"progress without a time": func(t *task.Task) { t.Notes = task.NewNotes(task.Progress{Done: 1}, nil) },
		"checkpoint":              func(t *task.Task) { t.Notes = task.NewNotes(t.Progress(), []byte("page 7")) },
		"checkpoint of 3 kB":      func(t *task.Task) { t.Notes = task.NewNotes(t.Progress(), pattern(3000)) },
		"short history":           func(t *task.Task) { t.History = []task.Attempt{{}, {Number: 2, Outcome: task.Crashed, Node: odd}} },
		"long history":            func(t *task.Task) { t.History = history(task.MaxHistory, task.MaxErrorText) },
		"changes by people": func(t *task.Task) {
			t.History = []task.Attempt{
				{Number: 1, StartedAt: at(1), EndedAt: at(1), Outcome: task.Edited, Error: "priority was 5", By: "anna"},
				{Number: 1, StartedAt: at(2), EndedAt: at(2), Outcome: task.Edited, Error: "state was error", By: "anna", Job: "job", Before: `{"v":3,"s":"error","t":"submitted"}`},
			}
		},
		"history out of time": func(t *task.Task) { t.History = []task.Attempt{{StartedAt: at(-1e6), EndedAt: at(-2e6)}} },
	}
}

// everything gives a row all values of remarkable that are compatible.
func everything(t *task.Task) {
	edits := maps.Clone(remarkable())
	for _, name := range []string{
		"payload of 3 kB", "result of 1 MB", "odd type", "odd group", "odd key", "ordering key", "headers",
		"last shard", "all times", "owner", "error", "long history", "progress", "checkpoint of 3 kB", "signals of 3 kB", "a parent", "children of 3 kB", "search values",
	} {
		edits[name](t)
	}
}

// pattern returns n bytes that do not compress and do not repeat.
func pattern(n int) []byte {
	b := make([]byte, n)
	x := uint64(n) | 1
	for i := range b {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
		b[i] = byte(x)
	}
	return b
}

// signals returns the signals of a task, with data of a size.
func signals(size int) *task.Signals {
	size = max(size, 2)
	return &task.Signals{
		Seen: []task.ID{{1}, {2}},
		Wake: task.Wake{By: task.BySignal, Signal: task.Signal{ID: task.ID{3}, Name: "w", At: at(7), Data: pattern(size)}},
		Kept: []task.Signal{{ID: task.ID{4}, Name: "k", At: at(8), Data: pattern(size / 2)}, {ID: task.ID{5}, At: at(9)}},
	}
}

// children returns children of which every third has ended.
func children(n uint32) *task.Children {
	s := task.ChildSet{Name: "page", Added: n, Reported: make([]byte, (n+7)/8)}
	for i := uint32(0); i < n; i += 3 {
		s.Reported[i/8] |= 1 << (i % 8)
		s.Done++
	}
	return &task.Children{Sets: []task.ChildSet{s, {Name: "näme", Added: 2, Failed: 1, Cancelled: 1, Reported: []byte{3}, Shards: []byte{7, 200}}}}
}

// waitingForChildren makes t wait for one.
func waitingForChildren(t *task.Task) {
	t.State, t.Signals = task.Waiting, &task.Signals{Awaits: []string{"paid", task.AwaitsChildren}}
	t.Children = children(10)
	t.Children.Sets[0].Await, t.Children.Sets[0].OrFailed = 5, true
}

// history returns n attempts that failed with errors of this size.
func history(n, size int) []task.Attempt {
	h := make([]task.Attempt, n)
	for i := range h {
		h[i] = task.Attempt{
			Number: uint32(i + 1), StartedAt: at(10 * i), EndedAt: at(10*i + 5), Node: fmt.Sprint("node-", i/3),
			Outcome: task.Errored, Error: string(bytes.Repeat([]byte{byte('a' + i)}, size)),
		}
	}
	return h
}
