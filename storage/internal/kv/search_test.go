package kv

import (
	"testing"
	"time"

	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

// puts counts the writes of each table.
type puts struct {
	*sorted
	of map[byte]int
}

func (p *puts) Put(key, value []byte) error {
	p.of[key[0]]++
	return p.sorted.Put(key, value)
}

func (p *puts) DeleteOnce(key []byte) error {
	p.of[key[0]]--
	return p.sorted.DeleteOnce(key)
}

func TestOnlyRowsWithSearchValuesHaveEntriesForThem(t *testing.T) {
	for _, values := range [][]task.SearchValue{nil, {3, 5}} {
		s := &puts{&sorted{keys: make(map[string][]byte)}, make(map[byte]int)}
		db, err := Open("test", s, false)
		if err != nil {
			t.Fatal(err)
		}
		tx := db.Begin(s)
		of := &task.Task{ID: task.ID{1}, Version: 1, State: task.Submitted, Type: "pay", Search: values}
		size := len(appendRecord(nil, &row{Task: *of}))
		if _, err := tx.Insert(t.Context(), of); err != nil {
			t.Fatal(err)
		}
		for version, to := range []task.State{task.Processing, task.Waiting, task.Submitted, task.Processing, task.Error, task.Submitted, task.Processing, task.Done} {
			c := task.Change{Ref: task.Ref{ID: of.ID, Version: uint64(version) + 1}, To: to, At: moment, NextEventAt: moment.Add(time.Hour)}
			if out, err := tx.Swap(t.Context(), c); err != nil || out[0] == nil {
				t.Fatal(to, out, err)
			}
		}
		tx.Committed()
		if s.of[prefixSearch] != len(values) {
			t.Errorf("a life with the values %v has written %d entries", values, s.of[prefixSearch])
		}
		without := *of
		without.Search = nil
		if more := size - len(appendRecord(nil, &row{Task: without})); (more == 0) != (values == nil) {
			t.Errorf("the values %v take %d bytes of the record", values, more)
		}
	}
}

func TestOnlyRowsWithEntriesOfAllIndexesAreRead(t *testing.T) {
	s := &sorted{keys: make(map[string][]byte)}
	db, err := Open("test", s, false)
	if err != nil {
		t.Fatal(err)
	}
	ids, tx, want := task.NewIDs([32]byte{1}), db.Begin(s), 0
	for i := range 600 {
		r := &task.Task{ID: ids.Next(moment), Version: 1, State: task.Error, Type: "pay", LastError: "error " + string(rune('a'+i%20)), Search: []task.SearchValue{task.SearchValue(1 + i%3), 1<<40 + task.SearchValue(i%7)}}
		if i%100 == 50 {
			r.Search = []task.SearchValue{task.Unread}
		}
		if _, err := tx.Insert(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		if i%20 == 10 && (i%100 == 50 || i%3 == 0 && i%7 == 0) {
			want++
		}
	}
	tx.Committed()
	kind := task.KindOfError("error k")
	sets := []task.SearchSet{{Name: "a", Values: []task.SearchValue{task.Unread, 1}}, {Name: "b", Values: []task.SearchValue{task.Unread, 1 << 40}}}
	for _, limits := range [][2]int{{1000, 100_000}, {3, 100_000}, {1000, 7}, {2, 5}} {
		s.read = 0
		q := storage.ListQuery{Filter: storage.Filter{States: []task.State{task.Error}}, Search: sets, Kinds: []task.KindRange{{From: kind, To: kind}}, Limit: limits[0], Scan: limits[1]}
		got := 0
		for more := true; more; more = !q.Before.IsZero() {
			v := db.Read(s)
			page, err := v.List(t.Context(), q)
			if err != nil || len(page.Tasks) > limits[0] || page.Read > limits[1] {
				t.Fatalf("%d rows of %d, %v", len(page.Tasks), page.Read, err)
			}
			got, q.Before = got+len(page.Tasks), page.Next
		}
		if got != want {
			t.Errorf("limits %v: %d rows, want %d", limits, got, want)
		}
		if limits[0] == 1000 && limits[1] == 100_000 && s.read > want {
			t.Errorf("%d rows are read to find %d", s.read, want)
		}
	}
}
