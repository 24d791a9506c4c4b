package storagetest

import (
	"time"

	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

var rememberCases = []testCase{
	{"a row with a key that is done may lose its content, and keeps its key until it is deleted", func(f *fixture) {
		for _, size := range []int{5, 3000} {
			for _, order := range []string{"", "order"} {
				t := f.full(size, order)
				f.put(t)
				if order != "" {
					f.promote(order)
					t.Turn = task.Head
				}
				f.step(t, task.Change{To: task.Processing, At: at(1), Owner: task.ID{1}})
				f.step(t, task.Change{To: task.Waiting, At: at(2), Outcome: task.Errored, Error: string(pattern(1000))})
				f.step(t, task.Change{To: task.Processing, At: at(3), Owner: task.ID{1}})
				f.note(t, task.Note{Ref: t.Ref(), Progress: &task.Progress{Done: 1}, Checkpoint: pattern(size)})
				f.step(t, task.Change{To: task.Done, At: at(4), NextEventAt: at(5), Result: pattern(size)})
				f.step(t, task.Change{To: task.Done, At: at(6), Remember: 6 * time.Second})
				f.isTombstone(t, at(10))
				f.step(t, task.Change{To: task.Done, At: at(7), Remember: 96 * time.Second}) // the type remembers for longer now
				f.isTombstone(t, at(100))
				if !f.remove(t.Ref())[0] {
					f.Error("it is not deleted")
				}
				again := f.full(size, order)
				f.put(again)
				f.remove(again.Ref())
			}
		}
	}},
	{"a row may become done without its content", func(f *fixture) {
		for _, size := range []int{5, 3000} {
			t := f.full(size, "")
			f.put(t)
			f.step(t, task.Change{To: task.Processing, At: at(1), Owner: task.ID{1}})
			f.note(t, task.Note{Ref: t.Ref(), Checkpoint: pattern(size)})
			f.step(t, task.Change{To: task.Done, At: at(2), NextEventAt: at(2), Result: pattern(size), Remember: 7 * time.Second})
			f.isTombstone(t, at(9))
			f.remove(t.Ref())
		}
	}},
	{"no other row loses its content", func(f *fixture) {
		for _, s := range task.States() {
			t := f.row(s, func(t *task.Task) {
				t.Key = "k"
				if s == task.Processing {
					t.Key = ""
				}
			})
			f.put(t)
			at := at(1)
			if s == task.Done {
				at = t.UpdatedAt.Add(time.Second)
			}
			for _, to := range task.States() {
				f.step(t, task.Change{To: to, At: at, Remember: time.Second})
			}
			if t.Version != 1 {
				f.Errorf("%v: it is at version %d", s, t.Version)
			}
			f.remove(t.Ref())
		}
		t := f.row(task.Done)
		f.put(t)
		f.step(t, task.Change{To: task.Done, At: t.UpdatedAt, Remember: time.Second}) // it has no key
		if t.Version != 1 {
			f.Error("a row without a key is remembered")
		}
	}},
}

// full returns a new row with a key and all that a request may give it.
func (f *fixture) full(size int, order string) *task.Task {
	return f.row(task.Submitted, func(t *task.Task) {
		t.Key, t.OrderingKey, t.Payload, t.Headers = "k", order, pattern(size), map[string]string{"h": "v"}
		t.Shard, _ = task.BoundShard(t.Type, t.Key, order)
		t.ID = f.ids.NextIn(epoch, t.Shard)
		if order != "" {
			t.Turn = task.Behind
		}
	})
}

// promote makes the first row of an ordering key its head.
func (f *fixture) promote(order string) {
	f.Helper()
	if _, err := f.Promote(f.ctx(), order); err != nil {
		f.Fatal(err)
	}
}

// isTombstone checks that a row is marked as a tombstone and has nothing left but its key, and is due at a time.
func (f *fixture) isTombstone(t *task.Task, until time.Time) {
	f.Helper()
	got := f.get(t.ID)
	f.same(got, t)
	if !got.Tombstone || got.State != task.Done || len(got.Payload)+len(got.Result)+len(got.Headers)+len(got.History)+len(got.Checkpoint()) > 0 || got.Progress() != (task.Progress{}) || got.LastError != "" {
		f.Errorf("there is left %+v", got)
	}
	due := f.due(storage.DueQuery{State: task.Done, Before: storage.DistantFuture, Limit: 10})
	if len(due) != 1 || due[0].Ref != t.Ref() || !due[0].At.Equal(until) {
		f.Errorf("due are %+v, want the row at %v", due, until)
	}
	other := f.full(5, t.OrderingKey)
	if in, err := f.Insert(f.ctx(), other); err != nil || in[0].Existing != t.ID {
		f.Errorf("a row with its key: %+v, %v", in, err)
	}
	f.check()
}
