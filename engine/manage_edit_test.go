package engine_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/task"
)

func TestATaskRunsWithWhatItWasEditedTo(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		type run struct {
			at                  time.Duration
			payload, checkpoint string
		}
		var runs []run
		began := time.Now()
		n := start(t, one("x", nil), handle("x", func(_ context.Context, t *task.Task) ([]byte, error) {
			runs = append(runs, run{time.Since(began).Truncate(time.Second), string(t.Payload), string(t.Checkpoint())})
			return nil, nil
		}))
		id := n.submit(engine.Request{Type: "x", Payload: []byte("old"), At: began.Add(time.Hour)})
		edited, err := n.Edit(t.Context(), task.Ref{ID: id, Version: 1}, engine.Edit{
			At: new(began.Add(2 * time.Hour)), Payload: new([]byte("new")), Checkpoint: new([]byte("c")),
		})
		if err != nil || edited.Version != 2 || !edited.NextEventAt.Equal(task.Stamp(began.Add(2*time.Hour))) {
			t.Fatalf("got %+v: %v", edited, err)
		}
		if _, err := n.Edit(t.Context(), task.Ref{ID: id, Version: 1}, engine.Edit{Payload: new([]byte("lost"))}); !errors.Is(err, engine.ErrStale) {
			t.Errorf("of a stale version: %v", err)
		}
		if _, err := n.Edit(t.Context(), edited.Ref(), engine.Edit{Payload: new([]byte("newer"))}); err != nil {
			t.Fatal(err)
		}
		n.end(id)
		if len(runs) != 1 || (runs[0] != run{2 * time.Hour, "newer", "c"}) {
			t.Errorf("it ran as %+v", runs)
		}
		if _, err := n.Edit(t.Context(), task.Ref{ID: id}, engine.Edit{}); !errors.Is(err, engine.ErrNotAllowed) {
			t.Errorf("of a task that is done: %v", err)
		}
	})
}

func TestAnErrorIsEditedAndStartsAnew(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		n := start(t, one("x", func(p *policy.Type) { p.MaxPayload = 9 }), handle("x", func(_ context.Context, t *task.Task) ([]byte, error) {
			if string(t.Payload) == "bad" {
				return nil, task.Permanent(errNo)
			}
			return nil, nil
		}))
		id := n.submit(engine.Request{Type: "x", Payload: []byte("bad")})
		was := n.end(id)
		for name, bad := range map[string]engine.Edit{
			"max_payload": {Payload: new(make([]byte, 10))},
			"checkpoint":  {Checkpoint: new(make([]byte, task.MaxCheckpoint+1))},
			"the years":   {At: new(time.Unix(-5, 0))},
		} {
			if _, err := n.Edit(t.Context(), was.Ref(), bad); !errors.Is(err, engine.ErrInvalid) || !strings.Contains(err.Error(), name) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if _, err := n.Edit(t.Context(), was.Ref(), engine.Edit{Payload: new([]byte("good"))}); err != nil {
			t.Fatal(err)
		}
		if got := n.end(id); got.State != task.Done || got.Attempt != 1 {
			t.Errorf("it is %v after attempt %d", got.State, got.Attempt)
		}
	})
}

func TestAnEditGivesATaskItsNewValuesForLimits(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		set := one("x", func(p *policy.Type) { p.Limits = []string{"per-user"} })
		set.Limits = map[string]policy.Limit{"per-user": {Name: "per-user", Max: 1, Per: "payload.user"}}
		n := start(t, set, handle("x", func(context.Context, *task.Task) ([]byte, error) { return nil, nil }))
		id := n.submit(engine.Request{Type: "x", Payload: []byte(`{"user": "first"}`), At: time.Now().Add(time.Hour)})
		if got, err := n.Edit(t.Context(), task.Ref{ID: id}, engine.Edit{Payload: new([]byte(`{"user": "second"}`))}); err != nil || got.Group != "second" {
			t.Errorf("got %+v: %v", got, err)
		}
		if _, err := n.Edit(t.Context(), task.Ref{ID: id}, engine.Edit{Payload: new([]byte("no JSON"))}); !errors.Is(err, engine.ErrInvalid) {
			t.Errorf("got %v", err)
		}
		n.end(id)
	})
}

func TestAnEditInterruptsARunningAttempt(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		seen, ended := make(chan string, 2), make(chan error, 1)
		n := start(t, one("x", nil), handle("x", func(ctx context.Context, t *task.Task) ([]byte, error) {
			seen <- string(t.Checkpoint())
			if t.Checkpoint() != nil {
				return nil, nil
			}
			<-ctx.Done()
			ended <- task.SaveCheckpoint(ctx, []byte("late"))
			return nil, context.Cause(ctx)
		}))
		id := n.submit(engine.Request{Type: "x"})
		time.Sleep(time.Second)
		if _, err := n.Edit(t.Context(), task.Ref{ID: id}, engine.Edit{}); !errors.Is(err, engine.ErrNotAllowed) {
			t.Errorf("an edit that does not interrupt: %v", err)
		}
		if _, err := n.Edit(t.Context(), task.Ref{ID: id}, engine.Edit{Interrupts: true, At: new(time.Time), Checkpoint: new([]byte("page 3"))}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		if got := n.expect(id, task.Waiting); got.Attempt != 0 || len(got.History) != 1 || got.History[0].Outcome != task.Overruled {
			t.Errorf("it is %+v", got)
		}
		if err := <-ended; !errors.Is(err, engine.ErrAttemptOver) {
			t.Errorf("the attempt saved a checkpoint: %v", err)
		}
		if _, err := n.Edit(t.Context(), task.Ref{ID: id}, engine.Edit{Interrupts: true, At: new(time.Now())}); err != nil {
			t.Fatal(err)
		}
		if got := n.end(id); got.State != task.Done || got.Attempt != 1 {
			t.Errorf("it is %+v", got)
		}
		if first, second := <-seen, <-seen; first != "" || second != "page 3" {
			t.Errorf("its attempts have seen %q and %q", first, second)
		}
	})
}
