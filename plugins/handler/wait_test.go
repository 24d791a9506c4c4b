package handler

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/taskengine/taskengine/plugins/internal/wire"
	"github.com/taskengine/taskengine/steps"
	"github.com/taskengine/taskengine/task"
)

func TestATaskWaitsForASignal(t *testing.T) {
	moment := task.WaitFor([]string{"paid", "void"}, time.Now().Add(time.Hour)) // with a monotonic reading
	date := time.UnixMicro(2e15)
	for name, c := range map[string]struct {
		err  error
		want *wire.Again
	}{
		"for ever":                       {task.WaitFor([]string{"paid"}, time.Time{}), &wire.Again{Wait: &wire.Wait{Names: []string{"paid"}}}},
		"until a time of the nodes":      {task.WaitFor([]string{"paid"}, date), &wire.Again{At: date.UnixMicro(), Wait: &wire.Wait{Names: []string{"paid"}}}},
		"until the time that stands for": {task.WaitFor([]string{"paid"}, time.UnixMicro(0)), &wire.Again{At: -1, Wait: &wire.Wait{Names: []string{"paid"}}}},
		"with a checkpoint": {
			task.WaitFor([]string{"paid"}, time.Time{}, task.WithCheckpoint([]byte("c"))),
			&wire.Again{Checkpoint: []byte("c"), Wait: &wire.Wait{Names: []string{"paid"}}},
		},
		"for no name": {task.WaitFor(nil, date), &wire.Again{At: date.UnixMicro(), Wait: &wire.Wait{}}}, // the node refuses it
		"for a while": {moment, &wire.Again{Wait: &wire.Wait{Names: []string{"paid", "void"}}}},
	} {
		t.Run(name, func(t *testing.T) {
			c.want.Result = []byte("so far")
			f := answerTo(t, []byte("so far"), c.err, "rerun", "wait")
			if a := f.GetAgain(); name == "for a while" {
				if a.GetDelay() < 1 {
					t.Errorf("the delay is %d", a.GetDelay())
				}
				a.Delay = 0
			}
			if want := (&wire.Finish{RunId: 1, Outcome: &wire.Finish_Again{Again: c.want}}); !proto.Equal(f, want) {
				t.Errorf("the answer is {%.300v}, want {%.300v}", f, want)
			}
		})
	}
}

// The clock of the node may differ from that of the program.
func TestWhatIsDueInAWhileIsSentAsADuration(t *testing.T) {
	for in, most := range map[time.Duration]int64{time.Hour: time.Hour.Microseconds(), time.Nanosecond: 1, -time.Hour: 1} {
		for _, err := range []error{task.WaitFor([]string{"paid"}, time.Now().Add(in)), task.Again(time.Now().Add(in))} {
			v := task.VerdictOf(nil, err)
			if got := againOf(&v, true); got.GetDelay() < 1 || got.GetDelay() > most || got.GetAt() != 0 {
				t.Errorf("in %v: it is {%v}", in, got)
			}
			if got := againOf(&v, false); got.GetAt() != v.Again.UnixMicro() || got.GetDelay() != 0 {
				t.Errorf("in %v: for a host that takes no delay it is {%v}", in, got)
			}
		}
	}
}

func TestAWaitThatAHostDoesNotSupportFailsForGood(t *testing.T) {
	for name, c := range map[string]struct {
		err      error
		features []string
		class    string
	}{
		"a host without waits":          {task.WaitFor([]string{"paid"}, time.Time{}), []string{"rerun"}, "unsupported"},
		"a host without a checkpoint":   {task.WaitFor([]string{"paid"}, time.Time{}, task.WithCheckpoint(nil)), []string{"wait"}, "unsupported"},
		"a name that cannot be sent":    {task.WaitFor([]string{"paid\xff"}, time.Time{}), []string{"wait"}, ""},
		"children":                      {task.WaitForChildren([]task.ChildrenWait{{Name: "a"}}, time.Time{}), []string{"rerun", "wait"}, "unsupported"},
		"no children":                   {task.WaitForChildren(nil, time.Time{}), []string{"rerun", "wait"}, "unsupported"},
		"children that it adds":         {task.WaitFor([]string{"paid"}, time.Time{}, task.WithChildren("a", task.Request{Type: "mail"})), []string{"rerun", "wait"}, "unsupported"},
		"tasks, as with any other end":  {task.WaitFor([]string{"paid"}, time.Time{}, task.WithTasks(task.Request{Type: "mail"})), []string{"rerun", "wait"}, "unsupported"},
		"signals":                       {task.WaitFor([]string{"paid"}, time.Time{}, task.WithSignals(task.SignalRequest{Name: "paid"})), []string{"rerun", "wait"}, "unsupported"},
		"a checkpoint that is too long": {task.WaitFor([]string{"paid"}, time.Time{}, task.WithCheckpoint(make([]byte, task.MaxCheckpoint+1))), []string{"rerun", "wait"}, "checkpoint_too_large"},
	} {
		t.Run(name, func(t *testing.T) {
			f := answerTo(t, nil, c.err, c.features...)
			if e := f.GetError(); !e.GetPermanent() || e.GetClass() != c.class {
				t.Errorf("the answer is {%.300v}, want a permanent error of class %q", f, c.class)
			}
		})
	}
}

func TestAHandlerLearnsWhatHasWokenItsTask(t *testing.T) {
	id, at := task.ID{1, 2, 3}, time.UnixMicro(2e15).UTC()
	for _, c := range []struct {
		woken *wire.Woken
		want  task.Wake
	}{
		{nil, task.Wake{}},
		{&wire.Woken{By: wire.Woken_BY_TIMEOUT}, task.Wake{By: task.ByTimeout}},
		{&wire.Woken{By: wire.Woken_BY_USER}, task.Wake{By: task.ByUser}},
		{&wire.Woken{By: wire.Woken_BY_CHILDREN}, task.Wake{By: task.ByChildren}},
		{
			&wire.Woken{By: wire.Woken_BY_SIGNAL, Id: id[:], Name: "paid", At: at.UnixMicro(), Data: []byte("\xff")},
			task.Wake{By: task.BySignal, Signal: task.Signal{ID: id, Name: "paid", At: at, Data: []byte("\xff")}},
		},
	} {
		r := newRun(&wire.Run{Woken: c.woken}, nil, &session{})
		if got := r.task.Woken(); got.By != c.want.By || got.Signal.ID != c.want.Signal.ID || got.Signal.Name != c.want.Signal.Name ||
			!got.Signal.At.Equal(c.want.Signal.At) || string(got.Signal.Data) != string(c.want.Signal.Data) {
			t.Errorf("it is %+v, want %+v", got, c.want)
		}
		if c.woken == nil && r.task.Signals != nil {
			t.Error("a task that was not woken has signals")
		}
	}
}

// stored answers a checkpoint as a host does.
func (h *host) stored(run, number uint64, why string) {
	h.to <- &wire.ToHandler{Stored: []*wire.Stored{{RunId: run, Number: number, Error: why}}}
	synctest.Wait()
}

// numbers returns the numbers of the checkpoints that have come of a run.
func (h *host) numbers(run uint64) (out []uint64) {
	synctest.Wait()
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, f := range h.frames {
		for _, k := range f.GetCheckpoints() {
			if k.GetRunId() == run {
				out = append(out, k.GetNumber())
			}
		}
	}
	return out
}

func TestACheckpointIsSavedWhenTheHostHasStoredIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := meet(t, Program{Slots: 10, Handlers: Handlers{"keep": Func(func(ctx context.Context, _ *task.Task) ([]byte, error) {
			return []byte("fine"), task.SaveCheckpoint(ctx, []byte("page 2"))
		})}}, "checkpoint")
		h.run("keep", 1, 2, 3)
		for _, id := range []uint64{1, 2, 3} {
			if f, n := h.finish(id), h.numbers(id); f != nil || len(n) != 1 || n[0] != 1 {
				t.Fatalf("run %d was answered with {%v}, after the checkpoints %v", id, f, n)
			}
		}
		h.stored(9, 1, "")
		h.stored(2, 1, "")
		h.stored(3, 1, "the disk is full")
		if f := h.finish(2); string(f.GetResult()) != "fine" {
			t.Errorf("the answer is {%v}", f)
		}
		if f := h.finish(3); !strings.Contains(f.GetError().GetMessage(), "the disk is full") || f.GetError().GetPermanent() {
			t.Errorf("a checkpoint that was not stored is answered with {%v}", f)
		}
		if f := h.finish(1); f != nil {
			t.Errorf("the first answer is {%v}", f)
		}
		h.cancel(1) // the checkpoint may still be stored
		if f := h.finish(1); f != nil {
			t.Errorf("after the cancel the answer is {%v}", f)
		}
		h.stored(1, 1, "")
		if f := h.finish(1); string(f.GetResult()) != "fine" {
			t.Errorf("the answer is {%v}", f)
		}
	})
}

func TestAnAnswerToACheckpointIsForTheOnesBeforeIt(t *testing.T) {
	s := answered(t, 10, nil, []uint64{1})
	r := s.running[1]
	r.terms = &terms{features: map[string]bool{"checkpoint": true}}
	var answers []<-chan error
	for range 3 {
		answer, err := r.save(nil)
		if err != nil {
			t.Fatal(err)
		}
		answers = append(answers, answer)
	}
	s.stored(&wire.Stored{RunId: 1, Number: 2})
	if err := errors.Join(<-answers[0], <-answers[1]); err != nil || len(answers[2]) != 0 {
		t.Errorf("the first two ended with %v, the third with %d answers", err, len(answers[2]))
	}
	s.lose()
	if err := <-answers[2]; !errors.Is(err, errElsewhere) {
		t.Errorf("the third ended with %v when the task ran elsewhere", err)
	}
	if _, err := r.save(nil); err == nil {
		t.Error("a checkpoint of a run that was cut off is sent")
	}
}

func TestACheckpointEndsWithItsHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		saved := make(chan error, 1)
		h := meet(t, Program{Slots: 1, Handlers: Handlers{"keep": Func(func(ctx context.Context, _ *task.Task) ([]byte, error) {
			saved <- task.SaveCheckpoint(ctx, nil)
			return nil, nil
		})}}, "checkpoint")
		h.run("keep", 1)
		h.leave()
		if err := <-saved; err == nil || !strings.Contains(err.Error(), "the host is gone") {
			t.Errorf("it ended with %v", err)
		}
	})
}

// Each step is stored before the next begins, and the attempt that follows a wait goes on behind it.
func TestAProgramRunsAFlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ran []string
		do := func(ctx context.Context, f *steps.Flow, name string) error {
			_, err := steps.Do(ctx, f, name, func(context.Context) (int, error) { ran = append(ran, name); return len(ran), nil })
			return err
		}
		h := meet(t, Program{Slots: 1, Handlers: Handlers{"order": steps.Handler(steps.Options{Version: 1}, func(ctx context.Context, f *steps.Flow) ([]byte, error) {
			if err := errors.Join(do(ctx, f, "charge"), do(ctx, f, "reserve")); err != nil {
				return nil, err
			}
			w, err := f.WaitFor(ctx, time.Hour, "packed")
			if err != nil {
				return nil, err
			}
			return w.Signal.Data, nil
		})}}, "checkpoint", "rerun", "wait")
		h.run("order", 1)
		if len(ran) != 1 {
			t.Fatalf("the steps %v ran before the first was stored", ran)
		}
		h.stored(1, 1, "")
		if len(ran) != 2 || h.finish(1) != nil {
			t.Fatalf("the steps %v ran, and the answer is {%v}", ran, h.finish(1))
		}
		h.stored(1, 2, "")
		again := h.finish(1).GetAgain()
		if w := again.GetWait(); len(w.GetNames()) != 1 || w.GetNames()[0] != "packed" || again.GetAt() != time.Now().Add(time.Hour).UnixMicro() {
			t.Fatalf("the answer is {%v}", h.finish(1))
		}
		h.to <- &wire.ToHandler{Runs: []*wire.Run{{
			RunId: 2, Type: "order", Checkpoint: again.GetCheckpoint(),
			Woken: &wire.Woken{By: wire.Woken_BY_SIGNAL, Id: make([]byte, 16), Name: "packed", At: 1, Data: []byte("parcel")},
		}}}
		if f := h.finish(2); string(f.GetResult()) != "parcel" || len(ran) != 2 {
			t.Errorf("the answer is {%v}, and the steps %v ran", f, ran)
		}
	})
}
