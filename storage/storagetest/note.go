package storagetest

import (
	"strings"

	"github.com/taskengine/taskengine/task"
)

var noteCases = []testCase{
	{"a note makes of a running row what Apply does, at the same version", func(f *fixture) {
		t := f.row(task.Processing, everything)
		t.State, t.NextEventAt = task.Processing, at(60)
		f.put(t)
		for _, n := range []task.Note{
			{Progress: &task.Progress{Done: 3, Total: 10, Message: "pages", At: at(1)}},
			{Checkpoint: []byte("page 3")},
			{Checkpoint: pattern(3000)},
			{Progress: &task.Progress{Done: 1 << 63, Message: strings.Repeat("x", 2*task.MaxProgressText)}, Checkpoint: pattern(2000)},
			{},
			{Progress: &task.Progress{}, Checkpoint: []byte("small again")},
			{Checkpoint: []byte{}},
			{Checkpoint: pattern(1 << 20)},
		} {
			n.Ref = t.Ref()
			f.note(t, n)
		}
	}},
	{"a note of another version or of a row that does not run is not written", func(f *fixture) {
		for _, s := range task.States() {
			t := f.row(s, func(t *task.Task) { t.NextEventAt = at(5) })
			f.put(t)
			f.note(t, task.Note{Ref: t.Ref(), Checkpoint: []byte("kept")})
			f.note(t, task.Note{Ref: task.Ref{ID: t.ID, Version: t.Version + 1}, Checkpoint: []byte("no")})
			f.note(t, task.Note{Ref: task.Ref{ID: t.ID, Version: t.Version - 1}, Progress: &task.Progress{Done: 1}})
		}
		f.note(&task.Task{}, task.Note{Ref: task.Ref{ID: task.ID{1}, Version: 1}, Checkpoint: []byte("of nobody")})
	}},
	{"a note of an attempt of another node is not written", func(f *fixture) {
		t := f.row(task.Processing, func(t *task.Task) { t.Owner = task.ID{1} })
		f.put(t)
		for _, by := range []task.ID{{1}, {2}, {}} {
			f.note(t, task.Note{Ref: t.Ref(), By: by, Checkpoint: by[:]})
			f.note(t, task.Note{Ref: t.Ref(), By: by, Progress: &task.Progress{Done: uint64(by[0])}})
		}
	}},
	{"notes of one call are written in order, those that cannot be left out", func(f *fixture) {
		t := f.row(task.Processing)
		f.put(t)
		got, err := f.Note(f.ctx(),
			task.Note{Ref: t.Ref(), Checkpoint: []byte("one")},
			task.Note{Ref: task.Ref{ID: task.ID{1}, Version: 1}, Checkpoint: []byte("of nobody")},
			task.Note{Ref: t.Ref(), Checkpoint: []byte("two")})
		if err != nil {
			f.Fatal(err)
		}
		equal(f, "written", got, []bool{true, false, true})
		equal(f, "checkpoint", string(f.get(t.ID).Checkpoint()), "two")
	}},
	{"the next attempt gets the checkpoint and shows no progress", func(f *fixture) {
		for _, size := range []int{5, 3000} {
			t := f.row(task.Processing)
			f.put(t)
			f.note(t, task.Note{Ref: t.Ref(), Checkpoint: pattern(size), Progress: &task.Progress{Done: 1, At: at(1)}})
			f.step(t, task.Change{To: task.Waiting, At: at(2), Outcome: task.Crashed, NextEventAt: at(3)})
			f.step(t, task.Change{To: task.Submitted, At: at(3)})
			f.step(t, task.Change{To: task.Processing, At: at(4), Owner: task.ID{1}})
			equal(f, "progress of the next attempt", f.get(t.ID).Progress(), task.Progress{})
			equal(f, "checkpoint of the next attempt", string(f.get(t.ID).Checkpoint()), string(pattern(size)))
		}
	}},
	{"a checkpoint goes when the work is done, for now or for good", func(f *fixture) {
		for _, to := range []task.State{task.Done, task.Waiting} {
			for _, size := range []int{5, 3000} {
				t := f.row(task.Processing)
				f.put(t)
				f.note(t, task.Note{Ref: t.Ref(), Checkpoint: pattern(size)})
				f.step(t, task.Change{To: to, At: at(2), Outcome: task.Completed, Result: []byte("r")})
				equal(f, "checkpoint", len(f.get(t.ID).Checkpoint()), 0)
				f.check()
			}
		}
	}},
	{"a large checkpoint goes with its row", func(f *fixture) {
		t := f.row(task.Processing)
		f.put(t)
		f.note(t, task.Note{Ref: t.Ref(), Checkpoint: pattern(3000)})
		f.remove(t.Ref())
		f.check()
	}},
}

// note writes a note to the row and compares the row with t after Apply.
func (f *fixture) note(t *task.Task, n task.Note) {
	f.Helper()
	got, err := f.Note(f.ctx(), n)
	if err != nil {
		f.Fatal(err)
	}
	if applied := n.Apply(t); got[0] != applied {
		f.Fatalf("the note was written: %t, want %t", got[0], applied)
	}
	if !t.ID.IsZero() {
		f.same(f.get(t.ID), t)
	}
}
