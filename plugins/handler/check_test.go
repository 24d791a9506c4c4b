package handler

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/taskengine/taskengine/plugins/internal/wire"
	"github.com/taskengine/taskengine/task"
)

// asked returns the check that a session sends next.
func asked(t *testing.T, s *session) *wire.Check {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.reporting {
		for _, k := range r.reports.checks {
			return k
		}
	}
	t.Fatal("nothing is asked")
	return nil
}

func askingRun(t *testing.T, features ...string) *run {
	s := newSession(nil, 1)
	t.Cleanup(s.close)
	s.terms = termsOf(&wire.Welcome{Features: features, MaxResultBytes: 100})
	r := newRun(&wire.Run{RunId: 7}, nil, s)
	s.running[7] = r
	return r
}

func TestRequestsThatCannotBeSentAreRefusedByTheirPlaces(t *testing.T) {
	r := askingRun(t, "check")
	type answer struct {
		refused []task.Refusal
		err     error
	}
	got := make(chan answer)
	go func() {
		refused, err := task.CheckChildren(r, "page", task.Request{Type: "\xff"}, task.Request{Type: "a"}, task.Request{Type: "b"}, task.Request{Type: "c", Payload: make([]byte, 200)})
		got <- answer{refused, err}
	}()
	<-r.session.wake.C()
	k := asked(t, r.session)
	if k.GetRunId() != 7 || k.GetNumber() != 1 || k.GetSet() != "page" || len(k.GetChildren()) != 2 || k.GetChildren()[0].GetType() != "a" {
		t.Errorf("it asks %v", k)
	}
	r.session.checked(&wire.Checked{RunId: 7, Number: 1, Refusals: []*wire.Refusal{{Index: 1, Reason: wire.Refusal_REASON_BACKLOG, Message: "full"}, {Index: 9}}})
	a := <-got
	if a.err != nil || len(a.refused) != 3 {
		t.Fatalf("the answer is %+v", a)
	}
	for i, want := range []task.Refusal{{Index: 0, Reason: task.RefusedInvalid}, {Index: 2, Reason: task.RefusedFull, Text: "full"}, {Index: 3, Reason: task.RefusedTooLarge}} {
		if f := a.refused[i]; f.Index != want.Index || f.Reason != want.Reason || !strings.Contains(f.Text, want.Text) {
			t.Errorf("refusal %d is %+v, want %+v", i, f, want)
		}
	}
}

// A question ends with its run, whatever ends that.
func TestAQuestionIsNotAwaitedForEver(t *testing.T) {
	for name, end := range map[string]func(*run){
		"the host cannot say it":   func(r *run) { r.session.checked(&wire.Checked{RunId: 7, Number: 1, Error: "no answer"}) },
		"the run is cancelled":     func(r *run) { r.session.stop(&wire.Cancel{RunId: 7}) },
		"the handler has returned": func(r *run) { r.session.runs.Add(1); r.session.answer(r, new(wire.Finish)) },
		"the run is elsewhere": func(r *run) {
			r.session.kept = newKept()
			r.session.lose()
		},
	} {
		r := askingRun(t, "check")
		got := make(chan error)
		go func() {
			_, err := task.CheckTasks(r, task.Request{Type: "a"})
			got <- err
		}()
		<-r.session.wake.C()
		end(r)
		if err := <-got; err == nil {
			t.Errorf("%s: there is no error", name)
		}
	}
}

func TestAHostThatDoesNotCheckIsNotAsked(t *testing.T) {
	_, err := task.CheckTasks(askingRun(t), task.Request{Type: "a"})
	if v := task.VerdictOf(nil, err); v.Class != "unsupported" || !v.GiveUp {
		t.Errorf("the verdict is %+v", v)
	}
	r := askingRun(t, "check")
	delete(r.session.running, 7)
	if _, err := task.CheckTasks(r, task.Request{Type: "a"}); err == nil || errors.Is(err, context.Canceled) {
		t.Errorf("after the end the error is %v", err)
	}
	if refused, err := task.CheckTasks(r); refused != nil || err != nil {
		t.Errorf("nothing is refused: %v, %v", refused, err)
	}
}
