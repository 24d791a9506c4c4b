package steps_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"reflect"
	"testing"
	"time"

	"github.com/taskengine/taskengine/steps"
	"github.com/taskengine/taskengine/task"
)

// vectorsFile says what a record is for each language that has flows: plugins/sdk has the vectors of the others.
const vectorsFile = "../plugins/sdk/steps.json"

// vector is a record, and a flow that it is that of.
type vector struct {
	Name   string
	Record json.RawMessage // the checkpoint; none if the task begins
	Text   string          // the checkpoint, if it is no JSON
	Woken  *woken          // the end of the wait of the task
	Family []task.ChildSet // the children of the task
	Flow   []step          // the steps of the code, with their results
	Then   *step           // the step that follows
	Key    string          // of that; not compared if it is empty
	After  json.RawMessage // the checkpoint after that
	Class  string          // of the error with which the flow ends, in place of After
}

type step struct {
	Step   string
	Result json.RawMessage
	Error  *failure // the error of the step from the record
	Fails  *failure // the step runs, and fails
	Wait   []string
	Woken  *woken
	Sleep  bool
	Run    string // children of this name, as many as Count
	Count  int
	Ended  steps.Children
	IDs    []string
}

type failure struct {
	Message, Class string
	Permanent      bool
}

type woken struct {
	By, ID, Name string
	AtUS         int64 `json:"at_us"`
	Data         []byte
}

func (w *woken) wake(t *testing.T) (out task.Wake) {
	t.Helper()
	if w == nil {
		return out
	}
	for _, by := range []task.WakeBy{task.BySignal, task.ByTimeout, task.ByUser, task.ByChildren} {
		if by.String() == w.By {
			out.By = by
		}
	}
	if out.By == task.BySignal {
		id, err := task.ParseID(w.ID)
		if err != nil {
			t.Fatal(err)
		}
		out.Signal = task.Signal{ID: id, Name: w.Name, At: time.UnixMicro(w.AtUS).UTC(), Data: w.Data}
	}
	return out
}

// keeper is a reporter that keeps checkpoints.
type keeper struct{ last []byte }

func (k *keeper) Progress(task.Progress) {}
func (k *keeper) Log(slog.Record)        {}
func (k *keeper) Checkpoint(data []byte) error {
	k.last = bytes.Clone(data)
	return nil
}

func TestRecordsAreThoseOfOtherLanguages(t *testing.T) {
	text, err := os.ReadFile(vectorsFile)
	if err != nil {
		t.Fatal(err)
	}
	var all []vector
	if err := json.Unmarshal(text, &all); err != nil {
		t.Fatal(err)
	}
	for _, v := range all {
		t.Run(v.Name, func(t *testing.T) {
			tsk := &task.Task{ID: task.ID{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}, Signals: &task.Signals{Wake: v.Woken.wake(t)}}
			tsk.Notes = task.NewNotes(task.Progress{}, append([]byte(v.Text), v.Record...))
			if v.Family != nil {
				tsk.Children = &task.Children{Sets: v.Family}
			}
			kept := new(keeper)
			h := steps.Handler(steps.Options{Version: 1}, func(ctx context.Context, f *steps.Flow) ([]byte, error) { return nil, v.run(ctx, t, f) })
			_, err := h.Handle(context.WithValue(t.Context(), task.ReporterKey{}, kept), tsk)
			if got := task.VerdictOf(nil, err); got.Class != v.Class || v.Class == "" && err != nil {
				t.Errorf("it ended with %v of the class %q, want %q", err, got.Class, v.Class)
			}
			if v.Class == "" && !reflect.DeepEqual(value(t, kept.last), value(t, v.After)) {
				t.Errorf("the record is\n%s, want\n%s", kept.last, v.After)
			}
		})
	}
}

func value(t *testing.T, text []byte) (v any) {
	t.Helper()
	if err := json.Unmarshal(text, &v); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return v
}

func (v *vector) run(ctx context.Context, t *testing.T, f *steps.Flow) error {
	for _, s := range v.Flow {
		if err := s.run(ctx, t, f); err != nil {
			return err
		}
	}
	if v.Then == nil {
		return nil
	}
	got, err := steps.Do(ctx, f, v.Then.Step, func(context.Context) (json.RawMessage, error) {
		if f.Key() != v.Key && v.Key != "" {
			t.Errorf("the key is %q, want %q", f.Key(), v.Key)
		}
		return v.Then.Result, nil
	})
	if err == nil && !reflect.DeepEqual(value(t, got), value(t, v.Then.Result)) {
		t.Errorf("the step returned %s, want %s", got, v.Then.Result)
	}
	return err
}

// hasRun compares how the children of a step have ended.
func (s *step) hasRun(t *testing.T, got steps.Children) {
	t.Helper()
	if got.Count != s.Ended.Count || got.Done != s.Ended.Done || got.Failed != s.Ended.Failed || got.Cancelled != s.Ended.Cancelled {
		t.Errorf("the children have ended as %+v, want %+v", got, s.Ended)
	}
	for i, want := range s.IDs {
		if id := got.ID(i).String(); id != want {
			t.Errorf("the id of child %d is %s, want %s", i, id, want)
		}
	}
}

// run does one step, and compares its result. It returns the error with which the flow is to end.
func (s *step) run(ctx context.Context, t *testing.T, f *steps.Flow) error {
	switch {
	case s.Sleep:
		return f.Sleep(ctx, time.Hour)
	case s.Run != "":
		got, err := f.RunChildren(ctx, s.Run, make([]task.Request, s.Count)...)
		if err == nil {
			s.hasRun(t, got)
		}
		return err
	case s.Wait != nil:
		w, err := f.WaitFor(ctx, time.Hour, s.Wait...)
		if err == nil && !reflect.DeepEqual(w, s.Woken.wake(t)) {
			t.Errorf("it was woken by %+v, want %+v", w, s.Woken)
		}
		return err
	}
	got, err := steps.Do(ctx, f, s.Step, func(context.Context) (json.RawMessage, error) {
		if s.Fails == nil {
			return nil, fmt.Errorf("step %q ran", s.Step)
		}
		err := task.WithClass(s.Fails.Class, errors.New(s.Fails.Message))
		if s.Fails.Permanent {
			err = task.Permanent(err)
		}
		return nil, err
	})
	var kept *steps.Error
	switch {
	case s.Fails != nil && err != nil:
		return nil
	case s.Error != nil && errors.As(err, &kept):
		if *kept != (steps.Error{Message: s.Error.Message, Class: s.Error.Class, Permanent: s.Error.Permanent}) {
			t.Errorf("the step failed with %+v, want %+v", kept, s.Error)
		}
		return nil
	case err == nil && s.Result != nil && !reflect.DeepEqual(value(t, got), value(t, s.Result)):
		t.Errorf("the step returned %s, want %s", got, s.Result)
	}
	return err
}
