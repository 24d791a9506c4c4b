package handler

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/taskengine/taskengine/plugins/internal/wire"
	"github.com/taskengine/taskengine/task"
)

// reads returns the reads that a program has sent.
func (h *host) reads() (all []*wire.ReadDocument) {
	synctest.Wait()
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, frame := range h.frames {
		all = append(all, frame.GetReads()...)
	}
	return all
}

// take writes the document stock/a as one less than it was.
var take = Func(func(ctx context.Context, _ *task.Task) ([]byte, error) {
	d, err := task.ReadDocument(ctx, "stock/a")
	if err != nil {
		return nil, err
	}
	writes := []task.DocumentWrite{d.Write(append(d.Data, 'x')), {Key: "old", Delete: true}}
	return []byte("taken"), task.Again(time.Time{}, task.WithDocuments(writes...))
})

func TestADocumentIsReadAndWrittenWithTheEnd(t *testing.T) {
	at := time.Date(2026, 11, 30, 1, 2, 3, 4000, time.UTC)
	var read task.Document
	handlers := Handlers{"alone": take, "batch": Batch(1, 0, func(ctx context.Context, tasks []*task.Task) ([]Outcome, error) {
		var err error
		read, err = task.ReadDocument(ContextOf(ctx, tasks[0]), "stock/b")
		return []Outcome{{Err: err}}, nil
	})}
	synctest.Test(t, func(t *testing.T) {
		h := meet(t, Program{Handlers: handlers, Slots: 10}, "documents")
		h.run("alone", 1)
		h.run("batch", 2)
		want := []*wire.ReadDocument{{RunId: 1, Number: 1, Key: "stock/a"}, {RunId: 2, Number: 1, Key: "stock/b"}}
		if diff := cmp.Diff(want, h.reads(), protocmp.Transform()); diff != "" {
			t.Fatal(diff)
		}
		h.to <- &wire.ToHandler{Documents: []*wire.DocumentRead{{RunId: 1, Number: 9, Version: 1}, {RunId: 9, Number: 1}}} // answers to nothing
		h.to <- &wire.ToHandler{Documents: []*wire.DocumentRead{
			{RunId: 1, Number: 1, Version: 7, Data: []byte("xx"), ExpiresAt: at.UnixMicro()},
			{RunId: 2, Number: 1, Version: 8, Data: []byte("y"), CreatedAt: at.UnixMicro(), UpdatedAt: at.UnixMicro() + 1},
		}}
		finish := &wire.Finish{RunId: 1, Outcome: &wire.Finish_Result{Result: []byte("taken")}, Documents: []*wire.WriteDocument{
			{Key: "stock/a", Data: []byte("xxx"), Replaces: new(uint64(7)), ExpiresAt: at.UnixMicro()}, {Key: "old", Delete: true},
		}}
		if diff := cmp.Diff(finish, h.finish(1), protocmp.Transform()); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff(task.Document{Key: "stock/b", Version: 8, Data: []byte("y"), CreatedAt: at, UpdatedAt: at.Add(time.Microsecond)}, read); diff != "" || h.finish(2).GetError() != nil {
			t.Errorf("the answer is %v: %s", h.finish(2), diff)
		}
	})
}

func TestADocumentThatDoesNotExistIsCreated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := meet(t, Program{Handlers: Handlers{"a": take}, Slots: 1}, "documents")
		h.run("a", 1)
		h.to <- &wire.ToHandler{Documents: []*wire.DocumentRead{{RunId: 1, Number: 1}}}
		if d := h.finish(1).GetDocuments(); len(d) != 2 || d[0].Replaces == nil || d[0].GetReplaces() != 0 {
			t.Errorf("it writes %v", d)
		}
	})
}

func TestDocumentsThatCannotBeWrittenFailTheTask(t *testing.T) {
	many := make([]task.DocumentWrite, task.MaxDocuments+1)
	for name, c := range map[string]struct {
		writes   []task.DocumentWrite
		features string
		want     string
		class    string
	}{
		"not served": {[]task.DocumentWrite{{Key: "a"}}, "signals", "does not support", "unsupported"},
		"too many":   {many, "documents", "there are 17 documents, of 16 allowed", ""},
		"too large":  {[]task.DocumentWrite{{Key: "a", Data: make([]byte, task.MaxDocument+1)}}, "documents", `the document "a" has 262145 bytes, of 262144 allowed`, ""},
		"no text":    {[]task.DocumentWrite{{Key: "\xff"}}, "documents", "not valid UTF-8", ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				write := Func(func(context.Context, *task.Task) ([]byte, error) {
					return nil, task.Again(time.Time{}, task.WithDocuments(c.writes...))
				})
				h := meet(t, Program{Handlers: Handlers{"a": write}, Slots: 1}, c.features)
				h.run("a", 1)
				f := h.finish(1)
				if e := f.GetError(); !strings.Contains(e.GetMessage(), c.want) || e.GetClass() != c.class || !e.GetPermanent() || f.GetDocuments() != nil {
					t.Errorf("the answer is %v", f)
				}
			})
		})
	}
}

// The largest writes fit, whatever the largest result is.
func TestDocumentsDoNotCountForTheResult(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		write := Func(func(context.Context, *task.Task) ([]byte, error) {
			writes := make([]task.DocumentWrite, task.MaxDocuments)
			for i := range writes {
				writes[i] = task.DocumentWrite{Key: string(rune('a' + i)), Data: make([]byte, task.MaxDocument)}
			}
			return nil, task.Again(time.Time{}, task.WithDocuments(writes...))
		})
		h := meet(t, Program{Handlers: Handlers{"a": write}, Slots: 2}, "documents")
		h.run("a", 1, 2)
		for id := range uint64(2) {
			if f := h.finish(id + 1); f.GetError() != nil || len(f.GetDocuments()) != task.MaxDocuments {
				t.Errorf("the answer has the error %v", f.GetError())
			}
		}
		h.mu.Lock()
		defer h.mu.Unlock()
		for _, frame := range h.frames {
			if n := len(frame.GetFinishes()); n > 1 || n == 1 && proto.Size(frame) > task.MaxDocuments*(task.MaxDocument+100) {
				t.Errorf("a frame has %d answers and %d bytes", n, proto.Size(frame))
			}
		}
	})
}

// A read ends with its run, whatever ends that.
func TestAReadIsNotAwaitedForEver(t *testing.T) {
	for name, end := range map[string]func(*run){
		"the host cannot read it":  func(r *run) { r.session.read(&wire.DocumentRead{RunId: 7, Number: 1, Error: "no answer"}) },
		"the run is cancelled":     func(r *run) { r.session.stop(&wire.Cancel{RunId: 7}) },
		"the handler has returned": func(r *run) { r.session.runs.Add(1); r.session.answer(r, new(wire.Finish)) },
		"the run is elsewhere": func(r *run) {
			r.session.kept = newKept()
			r.session.lose()
		},
	} {
		r := askingRun(t, "documents")
		got := make(chan error)
		go func() {
			_, err := task.ReadDocument(r, "a")
			got <- err
		}()
		<-r.session.wake.C()
		end(r)
		if err := <-got; err == nil || !strings.Contains(err.Error(), `the document "a" was not read`) {
			t.Errorf("%s: the error is %v", name, err)
		}
	}
}

func TestAHostWithoutDocumentsIsNotAsked(t *testing.T) {
	_, err := task.ReadDocument(askingRun(t), "a")
	if v := task.VerdictOf(nil, err); v.Class != "unsupported" || !v.GiveUp {
		t.Errorf("the verdict is %+v", v)
	}
	r := askingRun(t, "documents")
	if _, err := task.ReadDocument(r, "\xff"); err == nil {
		t.Error("a key that cannot be sent is no error")
	}
	delete(r.session.running, 7)
	if _, err := task.ReadDocument(r, "a"); err == nil || errors.Is(err, context.Canceled) {
		t.Errorf("after the end the error is %v", err)
	}
}

func TestAReadWithoutAnAnswerIsSentAgain(t *testing.T) {
	s := answered(t, 10, nil, []uint64{7})
	r := s.running[7]
	r.reading = []reading{{&wire.ReadDocument{RunId: 7, Number: 3, Key: "a"}, make(chan documentRead, 1)}}
	s.resume(&wire.Welcome{Slots: 10, Resumed: true, Runs: []uint64{7}}, 0)
	if said := s.takeReports(nil); len(said) != 1 || len(said[0].reads) != 1 || said[0].reads[0].GetNumber() != 3 {
		t.Errorf("it sends %+v", said)
	}
}
