package storagetest

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"

	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

// ample is a bound of the logs of tests that removes nothing.
const ample = 1 << 30

var logCases = []testCase{
	{"a log is the pieces that were appended, in their order", func(f *fixture) {
		a, b := f.id(), f.id()
		f.append(piece(a, 10, "one"), piece(b, 5, "other"))
		f.append(piece(a, 20, "two"))
		f.append(piece(a, 30, ""))
		f.log(a, "one", "two", "")
		f.log(b, "other")
		f.log(f.id())
	}},
	{"a piece is behind the newest of its log, whatever its time", func(f *fixture) {
		a := f.id()
		f.append(piece(a, 1000, "first"))
		last := int64(0)
		for i, at := range []int64{999, 1000, 1, 5000, 5000, 4000} {
			f.append(piece(a, at, fmt.Sprint(i)))
			all, _ := f.readLog(a, 0, ample)
			newest := all[len(all)-1]
			if newest.At <= last || string(newest.Data) != fmt.Sprint(i) {
				f.Fatalf("the piece %d is %q at %d, after %d", i, newest.Data, newest.At, last)
			}
			last = newest.At
		}
	}},
	{"a piece that is appended again is there once", func(f *fixture) {
		a, b := f.id(), f.id()
		first, second := piece(a, 10, "one"), piece(a, 20, "two")
		f.append(first)
		f.append(first, piece(b, 11, "new"))
		f.append(second)
		f.append(second)
		f.log(a, "one", "two")
		f.log(b, "new")
		f.total(int64(len("one") + len("two") + len("new")))
	}},
	{"a log is read in pages", func(f *fixture) {
		a := f.id()
		f.append(piece(f.id(), 1, "other"))
		for i := range 20 {
			f.append(piece(a, int64(10+i), fmt.Sprintf("%03d", i)))
		}
		var got []string
		after := int64(0)
		for {
			page, more := f.readLog(a, after, 8)
			if len(page) == 0 || len(page) > 2 {
				f.Fatalf("a page of 8 bytes has %d pieces of 3", len(page))
			}
			for _, p := range page {
				got, after = append(got, string(p.Data)), p.At
			}
			if !more {
				break
			}
		}
		if len(got) != 20 || got[19] != "019" {
			f.Fatalf("the pages are %v", got)
		}
		if page, _ := f.readLog(a, 0, 1); len(page) != 1 {
			f.Fatalf("a page of 1 byte has %d pieces, want 1", len(page))
		}
		if page, more := f.readLog(a, after, 8); len(page) != 0 || more {
			f.Fatalf("behind the end there are %v", page)
		}
	}},
	{"of a log the newest bytes are kept", func(f *fixture) {
		a, b := f.id(), f.id()
		for i := range 10 {
			f.appendWithin(10, piece(a, int64(i+1), fmt.Sprintf("%04d", i)), piece(b, int64(i+1), "x"))
		}
		f.log(a, "0008", "0009")
		f.log(b, "x", "x", "x", "x", "x", "x", "x", "x", "x", "x")
		f.total(18)
		f.appendWithin(10, piece(a, 100, "larger than the bound"))
		f.log(a, "larger than the bound")
		f.total(int64(10 + len("larger than the bound")))
	}},
	{"removed logs are gone, and others are not", func(f *fixture) {
		ids := make([]task.ID, 6)
		for i := range ids {
			ids[i] = f.id()
			f.append(piece(ids[i], int64(i+1), "a"))
			f.append(piece(ids[i], int64(i+10), "b"))
		}
		f.removeLogs(ids[1], ids[3], f.id())
		f.removeLogs()
		for i, id := range ids {
			if i == 1 || i == 3 {
				f.log(id)
			} else {
				f.log(id, "a", "b")
			}
		}
		f.total(8)
		f.append(piece(ids[1], 3, "again"))
		f.log(ids[1], "again")
		f.total(13)
	}},
	{"tasks with logs are found in the order of their IDs", func(f *fixture) {
		var want []task.ID
		for i := range 30 {
			id := f.ids.Next(at(i))
			want = append(want, id)
			for n := range 1 + i%3 {
				f.append(piece(id, int64(100*n+i+1), "line"))
			}
		}
		f.put(f.row(task.Submitted)) // it has none
		var got []task.ID
		for after := (task.ID{}); ; {
			page, err := f.logs().LoggedTasks(f.ctx(), after, 7)
			if err != nil {
				f.Fatal(err)
			}
			got = append(got, page...)
			if len(page) < 7 {
				break
			}
			after = page[len(page)-1]
		}
		slices.SortFunc(want, task.ID.Compare)
		equal(f, "tasks with a log", got, want)
	}},
	{"the oldest pieces of all logs are removed", func(f *fixture) {
		f.together()
		a, b := f.id(), f.id()
		for i := range 10 {
			f.append(piece(a, int64(10+2*i), "aaaa"))
			f.append(piece(b, int64(11+2*i), "bbbb"))
		}
		f.total(80)
		if n := f.trim(79, 100); n > 79 || n < 60 {
			f.Fatalf("%d bytes are left of 80, want at most 79 and one piece less", n)
		}
		if n := f.trim(20, 3); n < 40 {
			f.Fatalf("3 pieces were to be removed at most, and %d bytes are left", n)
		}
		for f.trim(20, 3) > 20 {
			continue
		}
		left, _ := f.readLog(a, 0, ample)
		other, _ := f.readLog(b, 0, ample)
		for _, p := range append(left, other...) {
			if p.At < 18 {
				f.Fatalf("a piece at %d is left, and newer ones are removed", p.At)
			}
		}
		if n := f.trim(0, 1000); n != 0 {
			f.Fatalf("%d bytes are left of logs that may have none", n)
		}
		f.log(a)
		f.log(b)
	}},
	{"a log and its row do not touch each other", func(f *fixture) {
		t := f.row(task.Submitted, everything)
		f.append(piece(t.ID, 1, "before"))
		f.put(t)
		f.append(piece(t.ID, 2, "after"))
		f.same(f.get(t.ID), t)
		equal(f, "deleted", f.remove(t.Ref()), []bool{true})
		f.log(t.ID, "before", "after")
		f.removeLogs(t.ID)
		f.put(f.row(task.Submitted))
	}},
	{"nothing of a piece is shared with the caller", func(f *fixture) {
		a, data := f.id(), []byte("data")
		f.append(storage.LogPiece{Task: a, At: 1, Mark: 1, Data: data})
		data[0] = 'X'
		got, _ := f.readLog(a, 0, ample)
		got[0].Data[0] = 'Y'
		f.log(a, "data")
	}},
	{"a large piece is whole", func(f *fixture) {
		a := f.id()
		f.append(storage.LogPiece{Task: a, At: 1, Mark: 1, Data: pattern(600_000)})
		got, _ := f.readLog(a, 0, ample)
		if len(got) != 1 || !bytes.Equal(got[0].Data, pattern(600_000)) {
			f.Fatal("it is another one")
		}
		f.removeLogs(a)
		f.log(a)
	}},
	{"wrong pieces are refused", func(f *fixture) {
		a := f.id()
		for _, wrong := range [][]storage.LogPiece{{{At: 1, Mark: 1}}, {{Task: a, Mark: 1}}, {{Task: a, At: 1}}, {piece(a, 1, "a"), piece(a, 2, "b")}} {
			if f.logs().AppendLogs(f.ctx(), ample, wrong...) == nil {
				f.Fatalf("%v was appended", wrong)
			}
		}
		f.append()
		f.log(a)
	}},
	{"logs that many append to are whole, and a reader misses no piece", func(f *fixture) {
		f.appendAtOnce()
	}},
	{"logs are there after reopening", func(f *fixture) {
		if _, ok := f.Store.(Reopener); !ok {
			f.Log("the store is no Reopener: nothing to see")
			return
		}
		a := f.id()
		f.append(piece(a, 5, "one"))
		f.reopen()
		f.append(piece(a, 3, "two"))
		f.log(a, "one", "two")
		f.total(6)
	}},
	{"logs are as a model has them", func(f *fixture) { f.logModel(200) }},
}

// appendAtOnce appends from several goroutines, while another one follows a log.
func (f *fixture) appendAtOnce() {
	const writers, each = 4, 12
	shared := f.id()
	var work sync.WaitGroup
	done := make(chan struct{})
	defer work.Wait()
	for w := range writers {
		own := f.id()
		work.Go(func() {
			for i := range each {
				text := fmt.Sprintf("%d-%d", w, i)
				if err := f.logs().AppendLogs(f.ctx(), ample, piece(shared, 1, text), piece(own, 1, text)); err != nil {
					f.Error(err)
				}
			}
		})
	}
	go func() { work.Wait(); close(done) }()
	seen := map[string]int{}
	after, last := int64(0), false
	for {
		page, more := f.readLog(shared, after, ample)
		for _, p := range page {
			seen[string(p.Data)]++
			after = p.At
		}
		if last && !more {
			break
		}
		select {
		case <-done:
			last = true
		default:
		}
	}
	for w := range writers {
		for i := range each {
			if n := seen[fmt.Sprintf("%d-%d", w, i)]; n != 1 {
				f.Fatalf("the piece %d of writer %d was read %d times", i, w, n)
			}
		}
	}
}

// logModel makes random calls, and compares the logs with a model.
func (f *fixture) logModel(steps int) {
	r := rand.New(rand.NewPCG(1, 2))
	model := map[task.ID][]string{}
	ids := make([]task.ID, 5)
	for i := range ids {
		ids[i] = f.id()
	}
	for i := range steps {
		id := ids[r.IntN(len(ids))]
		if r.IntN(20) == 0 {
			f.removeLogs(id)
			delete(model, id)
		} else {
			text := fmt.Sprintf("%d %s", i, bytes.Repeat([]byte("x"), r.IntN(20)))
			f.appendWithin(100, piece(id, 1+r.Int64N(1000), text))
			model[id] = append(model[id], text)
			size := 0
			for k := len(model[id]) - 1; k >= 0; k-- {
				if size += len(model[id][k]); size > 100 && k < len(model[id])-1 {
					model[id] = model[id][k+1:]
					break
				}
			}
		}
		f.log(id, model[id]...)
	}
	sum := 0
	for id, texts := range model {
		f.log(id, texts...)
		for _, text := range texts {
			sum += len(text)
		}
	}
	f.total(int64(sum))
}

func piece(id task.ID, at int64, text string) storage.LogPiece {
	return storage.LogPiece{Task: id, At: at, Mark: rand.Uint64() | 1, Data: []byte(text)}
}

func (f *fixture) logs() storage.LogKeeper { return f.Store.(storage.LogKeeper) }

func (f *fixture) append(pieces ...storage.LogPiece) {
	f.Helper()
	f.appendWithin(ample, pieces...)
}

func (f *fixture) appendWithin(most int64, pieces ...storage.LogPiece) {
	f.Helper()
	if err := f.logs().AppendLogs(f.ctx(), most, pieces...); err != nil {
		f.Fatal(err)
	}
}

func (f *fixture) readLog(id task.ID, after int64, size int) ([]storage.LogPiece, bool) {
	f.Helper()
	pieces, more, err := f.logs().ReadLog(f.ctx(), id, after, size)
	if err != nil {
		f.Fatal(err)
	}
	for _, p := range pieces {
		if p.Task != id || p.At <= after || p.Mark == 0 {
			f.Fatalf("the log of %v behind %d has a piece of %v at %d with the mark %d", id, after, p.Task, p.At, p.Mark)
		}
		after = p.At
	}
	return pieces, more
}

// log fails the test unless the log of a task has these pieces.
func (f *fixture) log(id task.ID, want ...string) {
	f.Helper()
	pieces, more := f.readLog(id, 0, ample)
	got := make([]string, 0, len(pieces))
	for _, p := range pieces {
		got = append(got, string(p.Data))
	}
	equal(f, "the log", got, append([]string{}, want...))
	if more {
		f.Fatal("there are more pieces than all")
	}
}

func (f *fixture) removeLogs(ids ...task.ID) {
	f.Helper()
	if err := f.logs().RemoveLogs(f.ctx(), ids...); err != nil {
		f.Fatal(err)
	}
}

func (f *fixture) trim(most int64, limit int) int64 {
	f.Helper()
	n, err := f.logs().TrimLogs(f.ctx(), most, limit)
	if err != nil {
		f.Fatal(err)
	}
	return n
}

// total fails the test unless all logs together have this size.
func (f *fixture) total(want int64) {
	f.Helper()
	if n := f.trim(ample*16, 1); n != want {
		f.Fatalf("all logs have %d bytes, want %d", n, want)
	}
}
