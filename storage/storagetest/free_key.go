package storagetest

import (
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

var ended = []task.State{task.Done, task.Failed, task.Cancelled}

var freeKeyCases = []testCase{
	{"a row that has ended may give up its key to another one", func(f *fixture) {
		for _, size := range []int{5, 3000} {
			for _, order := range []string{"", "order"} {
				for _, to := range ended {
					old := f.endedRow(size, order, to)
					next := f.full(size, order)
					f.isTaken(next, old.ID)
					f.step(old, task.Change{To: to, At: at(9), FreesKey: true})
					f.same(f.get(old.ID), old)
					f.put(next)
					f.check()
					if !f.remove(old.Ref())[0] {
						f.Error("the row is not deleted")
					}
					f.isTaken(f.full(size, order), next.ID) // the deletion has left the key to the other row
					f.remove(next.Ref())
				}
			}
		}
	}},
	{"a transaction may give the key to another row, or leave it as it was", func(f *fixture) {
		for _, order := range []string{"", "order"} {
			old, next := f.endedRow(5, order, task.Done), f.full(5, order)
			hand := func(tx storage.Tx) error {
				after, err := tx.Swap(f.ctx(), task.Change{Ref: old.Ref(), To: task.Done, At: at(9), FreesKey: true})
				if err != nil || after[0] == nil || after[0].Key != "" {
					f.Errorf("the key is not given up: %+v, %v", after, err)
				}
				in, err := tx.Insert(f.ctx(), next)
				if err != nil || !in[0].Created() {
					f.Errorf("the other row: %+v, %v", in, err)
				}
				return err
			}
			if err := f.Update(f.ctx(), func(tx storage.Tx) error {
				if err := hand(tx); err != nil {
					return err
				}
				return errRollback
			}); err == nil {
				f.Error("the transaction is not rolled back")
			}
			f.same(f.get(old.ID), old)
			f.isTaken(f.full(5, order), old.ID)
			if err := f.Update(f.ctx(), hand); err != nil {
				f.Fatal(err)
			}
			f.isTaken(f.full(5, order), next.ID)
			f.check()
			f.remove(next.Ref(), task.Ref{ID: old.ID, Version: old.Version + 1})
		}
	}},
	{"no other row gives up its key", func(f *fixture) {
		for _, s := range task.States() {
			keyed := func(t *task.Task) {
				t.Key = "k"
				t.Shard, _ = task.BoundShard(t.Type, t.Key, "")
				t.ID = f.ids.NextIn(epoch, t.Shard)
			}
			t := f.row(s, keyed)
			f.put(t)
			for _, to := range task.States() {
				c := task.Change{To: to, At: at(9), FreesKey: true}
				if to == s && s != task.Error { // an ended row gives it up to a change that does only that
					c.Payload = new([]byte("new"))
				}
				f.step(t, c)
			}
			if t.Version != 1 {
				f.Errorf("%v: it is at version %d", s, t.Version)
			}
			f.isTaken(f.row(task.Submitted, keyed), t.ID)
			f.remove(t.Ref())
		}
		t := f.row(task.Done)
		f.put(t)
		if f.step(t, task.Change{To: task.Done, At: at(9), FreesKey: true}); t.Version != 1 {
			f.Error("a row without a key has changed")
		}
	}},
}

// endedRow returns a new row of the store with a key and all that a row may have, which has ended.
func (f *fixture) endedRow(size int, order string, to task.State) *task.Task {
	f.Helper()
	t := f.full(size, order)
	f.put(t)
	if order != "" {
		f.promote(order)
		t.Turn = task.Head
	}
	f.step(t, task.Change{To: task.Processing, At: at(1), Owner: task.ID{1}})
	f.note(t, task.Note{Ref: t.Ref(), Checkpoint: pattern(size)})
	f.step(t, task.Change{To: to, At: at(4), NextEventAt: at(50), Result: pattern(size), Outcome: task.Errored, Error: string(pattern(1000))})
	return t
}

// isTaken checks that the key of a row is that of another one.
func (f *fixture) isTaken(t *task.Task, holder task.ID) {
	f.Helper()
	if in, err := f.Insert(f.ctx(), t); err != nil || in[0].Existing != holder {
		f.Errorf("a row with the key: %+v, %v; want the task %v", in, err, holder)
	}
}
