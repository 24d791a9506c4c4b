package storagetest

import (
	"errors"
	"fmt"
	"slices"

	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

var deleteCases = []testCase{
	{"a deleted row leaves no trace", func(f *fixture) {
		for _, s := range task.States() {
			t := f.row(s, everything)
			again := t.Clone()
			again.State, again.Payload, again.Result, again.History = task.Submitted, []byte("new"), nil, nil
			f.put(t)
			equal(f, "gone", f.remove(t.Ref()), []bool{true})
			if _, err := f.Get(f.ctx(), t.ID); !errors.Is(err, task.ErrNotFound) {
				f.Fatalf("the deleted row: %v", err)
			}
			equal(f, "queues", f.queues(task.Queue{}, 9), []task.Queue{})
			equal(f, "due", f.due(storage.DueQuery{State: s, Before: at(1e6), Limit: 9}), []storage.Due{})
			f.put(again) // neither its id nor its key is taken
			f.same(f.get(t.ID), again)
			equal(f, "gone again", f.remove(again.Ref()), []bool{true})
		}
	}},
	{"a row is deleted at its version only", func(f *fixture) {
		t := f.row(task.Submitted)
		f.put(t)
		f.step(t, task.Change{To: task.Cancelled, At: at(1)})
		unknown := task.Ref{ID: task.ID{1}, Version: 1}
		equal(f, "gone", f.remove(task.Ref{ID: t.ID, Version: 1}, unknown, t.Ref(), t.Ref()), []bool{false, false, true, false})
	}},
	{"many rows are deleted in batches", func(f *fixture) {
		ts := f.rows(117, task.Submitted, func(i int, t *task.Task) {
			t.Key = fmt.Sprint(i)
			if i%5 == 0 {
				t.Payload = pattern(2000)
			}
		})
		f.put(ts...)
		refs := make([]task.Ref, len(ts))
		for i, t := range ts {
			refs[i] = t.Ref()
		}
		for _, batch := range [][]task.Ref{refs[:60], refs[60:]} {
			if slices.Contains(f.remove(batch...), false) {
				f.Fatal("a row was not deleted")
			}
			f.check()
		}
		equal(f, "queues", f.queues(task.Queue{}, 9), []task.Queue{})
		f.put(ts...) // neither their ids nor their keys are taken
	}},
	{"a deleted row cannot be changed", func(f *fixture) {
		t := f.row(task.Submitted)
		f.put(t)
		f.remove(t.Ref())
		if got := f.swap(task.Change{Ref: t.Ref(), To: task.Processing}); got != nil {
			f.Fatalf("got %v", got)
		}
	}},
}

// remove deletes rows.
func (f *fixture) remove(rs ...task.Ref) []bool {
	f.Helper()
	gone, err := f.Delete(f.ctx(), rs...)
	if err != nil {
		f.Fatal(err)
	}
	return gone
}
