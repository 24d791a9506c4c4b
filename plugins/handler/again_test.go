package handler

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/taskengine/taskengine/plugins/internal/wire"
	"github.com/taskengine/taskengine/task"
)

// answerTo returns how a program answers the task of a handler that returns result and err.
func answerTo(t *testing.T, result []byte, err error, features ...string) (f *wire.Finish) {
	synctest.Test(t, func(t *testing.T) {
		h := meet(t, Program{Slots: 10, Handlers: Handlers{
			"alone": Func(func(context.Context, *task.Task) ([]byte, error) { return result, err }),
			"batch": Batch(1, 0, func(context.Context, []*task.Task) ([]Outcome, error) { return []Outcome{{result, err}}, nil }),
		}}, features...)
		h.run("alone", 1)
		h.run("batch", 2)
		f = h.finish(1)
		batch := proto.CloneOf(h.finish(2))
		batch.RunId = f.GetRunId()
		if e := batch.GetError(); e != nil { // it names the type
			e.Message = f.GetError().GetMessage()
		}
		if !proto.Equal(batch, f) {
			t.Errorf("in a batch the answer is {%v}, want {%v}", batch, f)
		}
	})
	return f
}

func TestATaskRunsAgainWithAPayloadAndACheckpoint(t *testing.T) {
	at := time.UnixMicro(2e15)
	for name, c := range map[string]struct {
		options []task.AgainOption
		want    *wire.Again
	}{
		"as it is":      {nil, &wire.Again{}},
		"with both":     {[]task.AgainOption{task.WithPayload([]byte("p")), task.WithCheckpoint([]byte("c"))}, &wire.Again{Payload: []byte("p"), Checkpoint: []byte("c")}},
		"with a nil":    {[]task.AgainOption{task.WithPayload(nil)}, &wire.Again{Payload: []byte{}}},
		"with as much":  {[]task.AgainOption{task.WithPayload(make([]byte, maxPayload))}, &wire.Again{Payload: make([]byte, maxPayload)}},
		"with no tasks": {[]task.AgainOption{task.WithTasks()}, &wire.Again{}},
	} {
		t.Run(name, func(t *testing.T) {
			c.want.At, c.want.Result = at.UnixMicro(), []byte("so far")
			f := answerTo(t, []byte("so far"), task.Again(at, c.options...), "rerun")
			if want := (&wire.Finish{RunId: 1, Outcome: &wire.Finish_Again{Again: c.want}}); !proto.Equal(f, want) {
				t.Errorf("the answer is {%.300v}, want {%.300v}", f, want)
			}
		})
	}
}

func TestATaskThatCannotRunAgainAsAskedFailsForGood(t *testing.T) {
	for name, c := range map[string]struct {
		features []string
		at       time.Time
		option   task.AgainOption
		class    string
	}{
		"a payload for a host that drops it":    {nil, time.UnixMicro(1), task.WithPayload(nil), "unsupported"},
		"a checkpoint for a host that drops it": {[]string{"checkpoint"}, time.UnixMicro(1), task.WithCheckpoint(nil), "unsupported"},
		"a large payload":                       {[]string{"rerun"}, time.UnixMicro(1), task.WithPayload(make([]byte, maxPayload+1)), "payload_too_large"},
		"a large checkpoint":                    {[]string{"rerun"}, time.UnixMicro(1), task.WithCheckpoint(make([]byte, task.MaxCheckpoint+1)), "checkpoint_too_large"},
		"tasks":                                 {[]string{"rerun"}, time.UnixMicro(1), task.WithTasks(task.Request{Type: "mail"}), "unsupported"},
		"children":                              {[]string{"rerun"}, time.Time{}, task.WithChildren("page", task.Request{Type: "mail"}), "unsupported"},
		"tasks, and done":                       {[]string{"rerun"}, time.Time{}, task.WithTasks(task.Request{Type: "mail"}), "unsupported"},
	} {
		t.Run(name, func(t *testing.T) {
			f := answerTo(t, nil, task.Again(c.at, c.option), c.features...)
			if e := f.GetError(); !e.GetPermanent() || e.GetClass() != c.class {
				t.Errorf("the answer is {%.300v}, want a permanent error of class %s", f, c.class)
			}
		})
	}
}

func TestAHandlerThatHasEndedItsAttemptSaysSo(t *testing.T) {
	if f := answerTo(t, []byte("lost"), task.Ended(), "ended"); f.GetEnded() == nil {
		t.Errorf("the answer is {%v}", f)
	}
	f := answerTo(t, nil, task.Ended(), "rerun")
	if e := f.GetError(); e.GetClass() != "unsupported" || e.GetPermanent() || !e.GetInDoubt() {
		t.Errorf("to a host that does not look it is {%v}", f)
	}
}

// As in the engine, where the zero time stands for a task that is done.
func TestATaskThatIsDoneHasNoOtherPayload(t *testing.T) {
	f := answerTo(t, []byte("done"), task.Again(time.Time{}, task.WithPayload([]byte("p")), task.WithCheckpoint([]byte("c"))))
	if string(f.GetResult()) != "done" {
		t.Errorf("the answer is {%v}", f)
	}
}

func TestAnswersWithPayloadsShareNoLargeFrame(t *testing.T) {
	large := &wire.Finish{Outcome: &wire.Finish_Again{Again: &wire.Again{Payload: make([]byte, wire.FrameBytes/2), Checkpoint: make([]byte, wire.FrameBytes/4)}}}
	if n := fit([]*wire.Finish{large, large, large}); n != 1 {
		t.Errorf("%d answers share a frame", n)
	}
}
