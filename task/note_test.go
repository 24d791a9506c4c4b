package task_test

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/taskengine/taskengine/task"
)

func TestANoteIsWrittenIntoItsRunningAttemptAndNothingElseChanges(t *testing.T) {
	said := task.Progress{Done: 3, Total: 9, Message: "pages", At: start.Add(time.Nanosecond)}
	for name, test := range map[string]struct {
		note task.Note
		want func(*task.Task)
	}{
		"nothing":      {task.Note{}, func(*task.Task) {}},
		"progress":     {task.Note{Progress: &said}, func(t *task.Task) { t.Notes.Progress = said; t.Notes.Progress.At = start }},
		"checkpoint":   {task.Note{Checkpoint: []byte("p7")}, func(t *task.Task) { t.Notes.Checkpoint = []byte("p7") }},
		"an empty one": {task.Note{Checkpoint: []byte{}}, func(t *task.Task) { t.Notes.Checkpoint = nil }},
		"a long message": {task.Note{Progress: &task.Progress{Message: strings.Repeat("é", 200)}}, func(t *task.Task) {
			t.Notes.Progress = task.Progress{Message: strings.Repeat("é", task.MaxProgressText/2)}
		}},
		"no text": {task.Note{Progress: &task.Progress{Message: "a\xff\x00b"}}, func(t *task.Task) {
			t.Notes.Progress = task.Progress{Message: "a\uFFFD\uFFFDb"}
		}},
	} {
		row, want := full(), full()
		test.note.Ref = row.Ref()
		test.want(want)
		if !test.note.Apply(row) {
			t.Errorf("%s: it did not apply", name)
		}
		if d := cmp.Diff(want, row); d != "" {
			t.Errorf("%s: %s", name, d)
		}
	}
}

func TestANoteOfWhatNoLongerRunsIsNotWritten(t *testing.T) {
	for _, s := range task.States() {
		for _, version := range []uint64{6, 7, 8} {
			row, want := full(), full()
			row.State, want.State = s, s
			n := task.Note{Ref: task.Ref{ID: row.ID, Version: version}, Checkpoint: []byte("new"), Progress: new(task.Progress)}
			applies := s == task.Processing && version == 7
			if n.Apply(row) != applies {
				t.Errorf("%v at version %d of 7: applied %t", s, version, !applies)
			}
			if !applies && !reflect.DeepEqual(row, want) {
				t.Errorf("%v at version %d of 7: changed all the same", s, version)
			}
		}
	}
}

func TestACheckpointLivesUntilTheWorkIsDone(t *testing.T) {
	for _, test := range []struct {
		to   task.State
		how  task.Outcome
		kept bool
	}{
		{task.Done, task.Completed, false},
		{task.Waiting, task.Completed, false}, // until it runs again
		{task.Waiting, task.Errored, true},
		{task.Waiting, task.Snoozed, true},
		{task.Submitted, task.Crashed, true},
		{task.Submitted, task.Interrupted, true},
		{task.Error, task.TimedOut, true},
		{task.Cancelled, task.Overruled, true},
	} {
		row := full()
		if !(task.Change{Ref: row.Ref(), To: test.to, Outcome: test.how, At: start}).Apply(row) {
			t.Fatalf("%v to %v did not apply", test.how, test.to)
		}
		if kept := row.Checkpoint() != nil; kept != test.kept {
			t.Errorf("%v to %v: kept is %t", test.how, test.to, kept)
		}
	}
}

func TestANewAttemptHasNoProgressAndTheOldCheckpoint(t *testing.T) {
	row := full()
	row.State, row.NextEventAt = task.Submitted, time.Time{}
	(task.Change{Ref: row.Ref(), To: task.Processing, At: start}).Apply(row)
	if (row.Progress() != task.Progress{}) || string(row.Checkpoint()) != "c" {
		t.Errorf("progress %+v, checkpoint %q", row.Progress(), row.Checkpoint())
	}
}
