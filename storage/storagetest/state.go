package storagetest

import (
	"time"

	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

// The sizes of payloads and checkpoints that a store keeps in different ways.
var partSizes = []int{0, 7, 512, 513, 3000}

// again returns the change of an attempt after which its task runs again in n seconds.
func again(n int) task.Change {
	return task.Change{To: task.Waiting, Outcome: task.Completed, Count: task.Reset, At: at(n), NextEventAt: at(n + 1), ReadyAt: at(n + 1), Result: []byte("r")}
}

// stateCases are about changes that replace the payload or the checkpoint of a row.
var stateCases = []testCase{
	{"a task runs again with another payload, of any size after any other", func(f *fixture) {
		for _, was := range partSizes {
			for _, is := range partSizes {
				t := f.row(task.Processing, func(t *task.Task) { t.Payload = pattern(was) })
				f.put(t)
				c := again(1)
				c.Payload = new(pattern(is))
				f.step(t, c)
				f.step(t, task.Change{To: task.Processing, At: at(2), Owner: task.ID{1}}) // answers the payload
				equal(f, "payload", string(f.get(t.ID).Payload), string(pattern(is)))
				f.step(t, task.Change{To: task.Done, At: at(3), Outcome: task.Completed})
			}
		}
	}},
	{"a task runs again with another checkpoint, or with none", func(f *fixture) {
		for _, was := range partSizes {
			for _, is := range partSizes {
				t := f.row(task.Processing)
				f.put(t)
				f.note(t, task.Note{Ref: t.Ref(), Checkpoint: pattern(was), Progress: &task.Progress{Done: 1}})
				c := again(1)
				c.Checkpoint = new(pattern(is))
				f.step(t, c)
				f.step(t, task.Change{To: task.Submitted, At: at(2)})
				f.step(t, task.Change{To: task.Processing, At: at(2), Owner: task.ID{1}}) // answers the checkpoint
				equal(f, "checkpoint", string(f.get(t.ID).Checkpoint()), string(pattern(is)))
				f.note(t, task.Note{Ref: t.Ref(), Checkpoint: pattern(was)})
				f.step(t, again(3))
				equal(f, "checkpoint without a new one", len(f.get(t.ID).Checkpoint()), 0)
			}
			f.check()
		}
	}},
	{"what a change gives a row stays through retries, and goes with the row", func(f *fixture) {
		for _, size := range append([]int{1 << 20}, partSizes...) {
			t := f.row(task.Processing, func(t *task.Task) { t.Payload = pattern(900) })
			f.put(t)
			c := again(1)
			c.Payload, c.Checkpoint = new(pattern(size)), new(pattern(size))
			f.step(t, c)
			f.step(t, task.Change{To: task.Processing, At: at(2), Owner: task.ID{1}})
			f.step(t, task.Change{To: task.Waiting, At: at(3), Outcome: task.Errored, Error: "no"})
			f.step(t, task.Change{To: task.Processing, At: at(4), Owner: task.ID{1}})
			f.step(t, task.Change{To: task.Error, At: at(5), Outcome: task.Errored, Error: "no"})
			f.remove(t.Ref())
			f.check()
		}
	}},
	{"a change that comes too late replaces nothing", func(f *fixture) {
		for _, size := range partSizes {
			t := f.row(task.Processing, func(t *task.Task) { t.Payload, t.Notes = pattern(700), task.NewNotes(task.Progress{}, pattern(700)) })
			f.put(t)
			c := again(1)
			c.Payload, c.Checkpoint = new(pattern(size)), new(pattern(size))
			c.Ref = task.Ref{ID: t.ID, Version: t.Version + 1}
			if got := f.swap(c); got != nil {
				f.Fatalf("it was made: %v", got)
			}
			f.same(f.get(t.ID), t)
		}
	}},
	{"a row in any state may get another payload and checkpoint with a change", func(f *fixture) {
		for _, from := range task.States() {
			for _, to := range task.States() {
				for _, size := range []int{9, 3000} {
					t := f.row(from, func(t *task.Task) {
						t.NextEventAt, t.Payload, t.Notes = at(5), pattern(1000), task.NewNotes(task.Progress{}, pattern(1000))
					})
					f.put(t)
					c := task.Change{To: to, At: at(1), Owner: task.ID{1}, Outcome: task.Errored, Error: "e"}
					c.Payload, c.Checkpoint = new(pattern(size)), new(pattern(size))
					f.step(t, c)
				}
			}
		}
	}},
	{"of several changes of one row each replaces what it gives", func(f *fixture) {
		t := f.row(task.Submitted, func(t *task.Task) { t.Payload = pattern(2000) })
		f.put(t)
		first, second := again(2), task.Change{To: task.Waiting, At: at(3), NextEventAt: at(9)}
		first.Payload, first.Checkpoint, second.Payload = new(pattern(800)), new(pattern(900)), new([]byte("two"))
		cs := []task.Change{{To: task.Processing, At: at(1), Owner: task.ID{1}}, first, second}
		for i := range cs {
			cs[i].Ref = task.Ref{ID: t.ID, Version: uint64(i + 1)}
		}
		got, err := f.Swap(f.ctx(), cs...)
		if err != nil {
			f.Fatal(err)
		}
		for i, c := range cs {
			c.Apply(t)
			f.same(got[i], handedOut(t))
		}
		f.same(f.get(t.ID), t)
	}},
	{"a waiting row without a time is legal, and no query for due rows finds it", func(f *fixture) {
		waiting := storage.DueQuery{State: task.Waiting, Before: storage.DistantFuture, Limit: 9}
		t := f.row(task.Waiting, func(t *task.Task) { t.NextEventAt = at(5) })
		f.put(t)
		f.step(t, task.Change{To: task.Waiting, At: at(1), Payload: new([]byte("paused"))})
		equal(f, "time", t.NextEventAt, time.Time{})
		equal(f, "due", len(f.due(waiting)), 0)
		f.step(t, task.Change{To: task.Waiting, At: at(2), NextEventAt: at(9), ReadyAt: at(9)})
		equal(f, "due after it got a time", len(f.due(waiting)), 1)
	}},
}
