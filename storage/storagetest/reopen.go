package storagetest

import (
	"errors"
	"math/rand/v2"
	"sync"

	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

var reopenCases = []testCase{
	{"everything is there after reopening", func(f *fixture) {
		var want []*task.Task
		for _, edit := range remarkable() {
			want = append(want, f.row(task.Submitted, edit))
		}
		f.put(want...)
		gone := f.row(task.Submitted, func(t *task.Task) { t.Key = "gone" })
		f.put(gone)
		f.remove(gone.Ref())
		f.step(want[0], task.Change{To: task.Waiting, At: at(1), NextEventAt: at(2)})
		queues := f.queues(task.Queue{}, 1000)
		f.reopen()
		for _, t := range want {
			f.same(f.get(t.ID), t)
			f.step(t, task.Change{To: task.Cancelled, At: at(3)})
		}
		f.put(gone)
		if len(queues) == 0 {
			f.Fatal("there were no queues to begin with")
		}
		f.reopen()
		equal(f, "queues", f.queues(task.Queue{}, 1000), []task.Queue{gone.Queue()})
	}},
	{"numbers go on after reopening", func(f *fixture) {
		var newest uint64
		for range 3 {
			for range 2 {
				t := f.row(task.Submitted)
				f.put(t)
				if t.Seq <= newest {
					f.Fatalf("number %d follows %d", t.Seq, newest)
				}
				newest = t.Seq
			}
			f.reopen()
		}
	}},
	{"numbers go on after reopening though the first ones were rolled back", func(f *fixture) {
		err := f.Update(f.ctx(), func(tx storage.Tx) error {
			_, err := tx.Insert(f.ctx(), f.row(task.Submitted))
			return errors.Join(err, errRollback)
		})
		if !errors.Is(err, errRollback) {
			f.Fatal(err)
		}
		before, after := f.row(task.Submitted), f.row(task.Submitted)
		f.put(before)
		f.reopen()
		f.put(after)
		if after.Seq <= before.Seq {
			f.Fatalf("number %d follows %d", after.Seq, before.Seq)
		}
	}},
	{"many rows are changed in one call after reopening, in any order", func(f *fixture) {
		for n := 1; n <= 300; n += 37 { // some of the ids that end a call end with 0xff
			ts := f.rows(n, task.Submitted, func(i int, t *task.Task) { t.ID[15] = 0xff - byte(i%2) })
			f.put(ts...)
			f.reopen()
			changes := make([]task.Change, n)
			for i, place := range rand.New(rand.NewPCG(1, uint64(n))).Perm(n) {
				changes[i] = task.Change{Ref: ts[place].Ref(), To: task.Processing, At: at(1), NextEventAt: at(2)}
			}
			got, err := f.Swap(f.ctx(), changes...)
			if err != nil {
				f.Fatal(err)
			}
			for i, t := range got {
				if t == nil || t.Ref() != (task.Ref{ID: changes[i].ID, Version: changes[i].Version + 1}) {
					f.Fatalf("change %d of %d gave %v", i, n, t)
				}
			}
		}
		due := f.due(storage.DueQuery{State: task.Processing, Before: at(2), Limit: 1e6})
		seen := make(map[task.ID]bool)
		for _, d := range due {
			seen[d.ID] = true
		}
		if want := 1341; len(due) != want || len(seen) != want {
			f.Fatalf("%d rows are due, %d of them different, want %d", len(due), len(seen), want)
		}
	}},
	{"ids and keys are still taken after reopening", func(f *fixture) {
		t := f.row(task.Submitted, func(t *task.Task) { t.Key = "k" })
		f.put(t)
		f.reopen()
		other := f.row(task.Submitted, func(t *task.Task) { t.Key = "k" })
		got, err := f.Insert(f.ctx(), t.Clone(), other)
		if err != nil {
			f.Fatal(err)
		}
		equal(f, "in the way", got, []storage.Inserted{{Existing: t.ID}, {Existing: t.ID}})
	}},
}

// reopen closes the store and opens it again.
func (f *fixture) reopen() {
	f.Helper()
	f.Store = f.Store.(Reopener).Reopen(f.T)
	f.check()
}

var crashCases = []testCase{
	{"what was acknowledged survives a power cut", func(f *fixture) {
		t := f.row(task.Submitted, everything)
		f.put(t)
		f.step(t, task.Change{To: task.Processing, At: at(1)})
		f.crash()
		f.same(f.get(t.ID), t)
		f.step(t, task.Change{To: task.Done, At: at(2), Result: pattern(3000)})
		other := f.row(task.Submitted)
		f.put(other)
		if other.Seq <= t.Seq {
			f.Fatalf("number %d follows %d", other.Seq, t.Seq)
		}
		f.remove(other.Ref())
		f.crash()
		f.same(f.get(t.ID), t)
		if _, err := f.Get(f.ctx(), other.ID); !errors.Is(err, task.ErrNotFound) {
			f.Fatalf("the deleted row: %v", err)
		}
	}},
	{"a power cut under load loses nothing acknowledged and keeps transactions whole", func(f *fixture) {
		var wg sync.WaitGroup
		var mu sync.Mutex
		acked := make(map[task.ID]task.ID)
		enough := make(chan struct{})
		for range 4 {
			wg.Go(func() {
				for {
					pair := f.rows(2, task.Submitted, func(_ int, t *task.Task) { t.Payload = pattern(700) })
					if _, err := f.Insert(f.ctx(), pair...); err != nil {
						f.Error(err)
						return
					}
					mu.Lock()
					acked[pair[0].ID] = pair[1].ID
					if len(acked) == 200 {
						close(enough)
					}
					mu.Unlock()
					select {
					case <-enough:
						return
					default:
					}
				}
			})
		}
		<-enough
		mu.Lock()
		promised := make(map[task.ID]task.ID, len(acked))
		for a, b := range acked {
			promised[a] = b
		}
		mu.Unlock()
		after := &fixture{T: f.T, Store: f.Store.(Crasher).Crash(f.T), ids: f.ids}
		wg.Wait()
		after.check()
		for a, b := range promised {
			after.get(a)
			after.get(b)
		}
		if n := len(after.ready(storage.ReadyQuery{Queue: task.Queue{Type: "mail"}, Limit: 1e6})); n%2 != 0 {
			f.Fatalf("%d rows: half of a transaction survived", n)
		}
	}},
	{"a relaxed change is durable with the next update and not torn by a power cut before", func(f *fixture) {
		if _, ok := f.Store.(storage.NoSyncer); !ok {
			f.Log("the store is no storage.NoSyncer: nothing to see")
			return
		}
		t := f.row(task.Submitted)
		f.put(t)
		grab := task.Change{Ref: t.Ref(), To: task.Processing, At: at(1), Owner: task.ID{1}}
		f.relax(func(tx storage.Tx) error { _, err := tx.Swap(f.ctx(), grab); return err })
		before := &fixture{T: f.T, Store: f.Store.(Crasher).Crash(f.T)}
		before.check()
		lost := before.get(t.ID)
		if lost.Version == 1 {
			before.same(lost, t)
		}
		grab.Apply(t)
		if lost.Version == 2 {
			before.same(lost, t)
		}
		f.put(f.row(task.Waiting))
		f.crash()
		f.same(f.get(t.ID), t)
	}},
	{"an answer that rests on a relaxed change is not lost with it", func(f *fixture) {
		r, ok := f.Store.(storage.NoSyncer)
		if !ok {
			f.Log("the store is no storage.NoSyncer: nothing to see")
			return
		}
		t := f.row(task.Submitted)
		if err := r.UpdateNoSync(f.ctx(), func(tx storage.Tx) error { _, err := tx.Insert(f.ctx(), t); return err }); err != nil {
			f.Fatal(err)
		}
		got, err := f.Insert(f.ctx(), t.Clone()) // the answer says that it exists
		if err != nil {
			f.Fatal(err)
		}
		equal(f, "in the way", got, []storage.Inserted{{Existing: t.ID}})
		f.crash()
		f.same(f.get(t.ID), t)
	}},
}

// crash replaces the store by its state after a power failure.
func (f *fixture) crash() {
	f.Helper()
	f.Store = f.Store.(Crasher).Crash(f.T)
	f.check()
}
