package engine_test

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/storage/bolt"
	"github.com/taskengine/taskengine/storage/memory"
	"github.com/taskengine/taskengine/task"
)

// onStores runs a test of an engine without handlers on two stores.
func onStores(t *testing.T, fn func(t *testing.T, e *engine.Engine)) {
	for name, open := range map[string]func(t *testing.T) storage.Store{
		"memory": func(*testing.T) storage.Store { return memory.New() },
		"bolt": func(t *testing.T) storage.Store {
			s, err := bolt.Open(filepath.Join(t.TempDir(), "tasks"), bolt.Options{})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { s.Close() })
			return s
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			keyed := policy.DefaultType()
			keyed.Limits, keyed.MaxPayload = []string{"tenants"}, 100
			set := policy.Set{Types: map[string]policy.Type{"keyed": keyed}, Limits: map[string]policy.Limit{"tenants": {Name: "tenants", Max: 1, Per: "headers.tenant"}}}
			e, err := engine.Open(t.Context(), engine.Config{Store: open(t), Policies: set})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { e.Close(t.Context()) })
			fn(t, e)
		})
	}
}

func TestValuesOfATaskAreChangedAndTheOldOnesAreInItsHistory(t *testing.T) {
	t.Parallel()
	onStores(t, func(t *testing.T, e *engine.Engine) {
		r, err := e.Submit(t.Context(),
			engine.Request{Type: "keyed", Payload: []byte(`{"a":1}`), Headers: map[string]string{"tenant": "t7", "other": "o"}},
			engine.Request{Type: "keyed", At: time.Now().Add(time.Hour), Headers: map[string]string{"tenant": "t7"}},
			engine.Request{Type: "keyed", OrderingKey: "k", ExpiresAt: time.Now().Add(time.Millisecond), Headers: map[string]string{"tenant": "t7"}})
		if err != nil {
			t.Fatal(err)
		}
		ctx := t.Context()
		failed := r[2].ID
		for {
			if got, err := e.Get(ctx, failed); err != nil {
				t.Fatal(err)
			} else if got.State == task.Error {
				break
			}
			time.Sleep(time.Millisecond)
		}
		at := task.Stamp(time.Now().Add(2 * time.Hour))
		a, err := engine.Setting(engine.Values{
			Priority: new(uint8(2)), Payload: new([]byte(`{"a":2}`)), Headers: map[string]*string{"tenant": new("t8"), "other": nil}, By: "anna",
		})
		if err != nil {
			t.Fatal(err)
		}
		for i, one := range r {
			before, err := e.Get(ctx, one.ID)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := e.Do(ctx, task.Ref{ID: one.ID, Version: before.Version}, a); err != nil {
				t.Fatal(i, err)
			}
			got, err := e.Get(ctx, one.ID)
			if err != nil || got.Priority != 2 || string(got.Payload) != `{"a":2}` || got.Headers["tenant"] != "t8" || got.Headers["other"] != "" || !strings.Contains(got.Group, "t8") {
				t.Fatalf("%d: got %+v, %v", i, got, err)
			}
			if i == 2 && (got.State != task.Error || got.LastError != before.LastError || got.Turn != before.Turn) {
				t.Fatalf("got %+v", got)
			}
			last := got.History[len(got.History)-1]
			if last.Outcome != task.Edited || last.By != "anna" || last.Job != "" || !strings.HasPrefix(last.Error, "priority was 5") || !strings.Contains(last.Error, "header tenant was t7") {
				t.Fatalf("%d: got %+v", i, last)
			}
			if i == 0 && !strings.Contains(last.Error, `payload was {"a":1}`) {
				t.Fatalf("got %+v", last)
			}
		}
		later, err := engine.Setting(engine.Values{At: &at})
		if err != nil {
			t.Fatal(err)
		}
		if got, err := e.Do(ctx, task.Ref{ID: r[1].ID}, later); err != nil || !got.NextEventAt.Equal(at) || got.State != task.Waiting {
			t.Fatalf("got %+v, %v", got, err)
		}
		if _, err := e.Do(ctx, task.Ref{ID: failed}, later); !errors.Is(err, engine.ErrNotAllowed) {
			t.Fatal(err)
		}
		long, err := engine.Setting(engine.Values{Payload: new([]byte(strings.Repeat("x", 101)))})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := e.Do(ctx, task.Ref{ID: r[1].ID}, long); !errors.Is(err, engine.ErrInvalid) {
			t.Fatal(err)
		}
		if _, err := e.Resume(ctx, task.Ref{ID: failed}); err != nil {
			t.Fatal(err)
		}
	})
}

func TestWrongValuesAreRefused(t *testing.T) {
	t.Parallel()
	for _, v := range []engine.Values{{}, {Priority: new(uint8(10))}, {At: new(time.Time)}, {Headers: map[string]*string{"": nil}}, {Headers: map[string]*string{"a": new("\xff")}}} {
		if _, err := engine.Setting(v); !errors.Is(err, engine.ErrInvalid) {
			t.Errorf("%+v: %v", v, err)
		}
	}
}

func TestTheHistoryOfATaskSaysWhichJobHasChangedIt(t *testing.T) {
	t.Parallel()
	later, err := engine.Rescheduling(time.Now().Add(2 * time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	set, err := engine.Setting(engine.Values{Priority: new(uint8(2))})
	if err != nil {
		t.Fatal(err)
	}
	onStores(t, func(t *testing.T, e *engine.Engine) {
		ctx := t.Context()
		for verb, a := range map[string]engine.Action{
			"resume": engine.Resuming(), "cancel": engine.Cancelling("no"), "fail": engine.Failing("no"), "reschedule": later, "set": set,
		} {
			var targets []engine.Target
			for range 2 {
				r, err := e.Submit(ctx, engine.Request{Type: "other", At: time.Now().Add(time.Hour)})
				if err != nil {
					t.Fatal(err)
				}
				targets = append(targets, engine.Target{Ref: task.Ref{ID: r[0].ID, Version: 1}})
			}
			a = a.ByJob("job", "anna")
			_, err := e.Do(ctx, targets[0].Ref, a)
			if out := e.DoMany(ctx, e.Now(), a, targets[1:]); err != nil || out[0].Err != nil {
				t.Fatal(verb, err, out[0].Err)
			}
			for _, one := range targets {
				got, err := e.Get(ctx, one.ID)
				if err != nil || len(got.History) != 1 {
					t.Fatalf("%s: got %+v, %v", verb, got, err)
				}
				entry := got.History[0]
				was := "state was waiting, time was "
				if verb == "set" {
					was = "priority was 5"
				}
				if entry.Outcome != task.Edited || entry.By != "anna" || entry.Job != "job" || !strings.HasPrefix(entry.Error, was) || !entry.EndedAt.Equal(entry.StartedAt) {
					t.Errorf("%s: got %+v", verb, entry)
				}
			}
		}
	})
}

func TestEndedTasksAreDeleted(t *testing.T) {
	t.Parallel()
	onStores(t, func(t *testing.T, e *engine.Engine) {
		ctx := t.Context()
		r, err := e.Submit(ctx, engine.Request{Type: "other", Key: "k", Payload: []byte("x")}, engine.Request{Type: "other"})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := e.Do(ctx, task.Ref{ID: r[0].ID}, engine.Deleting()); !errors.Is(err, engine.ErrNotAllowed) {
			t.Fatal(err)
		}
		cancelled, err := e.Cancel(ctx, task.Ref{ID: r[0].ID}, "")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := e.Do(ctx, task.Ref{ID: r[0].ID, Version: cancelled.Version + 1}, engine.Deleting()); !errors.Is(err, engine.ErrStale) {
			t.Fatal(err)
		}
		out := e.DoMany(ctx, e.Now(), engine.Deleting(), []engine.Target{{Ref: cancelled.Ref()}, {Ref: task.Ref{ID: r[1].ID, Version: 1}}, {Ref: task.Ref{ID: task.ID{1}, Version: 1}}})
		if out[0].Err != nil || !errors.Is(out[1].Err, engine.ErrNotAllowed) || !errors.Is(out[2].Err, task.ErrNotFound) {
			t.Fatalf("got %+v", out)
		}
		if _, err := e.Get(ctx, r[0].ID); !errors.Is(err, task.ErrNotFound) {
			t.Fatal(err)
		}
		if again, err := e.Submit(ctx, engine.Request{Type: "other", Key: "k"}); err != nil || !again[0].Created {
			t.Fatal(again, err)
		}
	})
}
