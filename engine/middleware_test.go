package engine_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/storage/memory"
	"github.com/taskengine/taskengine/task"
)

type keyOfWrap struct{}

func TestWrapIsAroundEveryAttemptAndSeesHowItEnded(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var ends []string
		n := startWith(t, one("x", func(p *policy.Type) { p.Retry.Max = 2 }), handle("x", func(ctx context.Context, tk *task.Task) ([]byte, error) {
			if ctx.Value(keyOfWrap{}) != "x" {
				t.Error("the handler does not get the context of the function around it")
			}
			if task.ReporterOf(ctx) == nil {
				t.Error("the handler has no reporter any more")
			}
			if tk.Attempt == 1 {
				return nil, errNo
			}
			return []byte("ok"), nil
		}), func(c *engine.Config) {
			c.Wrap = func(typ string, next task.Handler) task.Handler {
				return task.HandlerFunc(func(ctx context.Context, tk *task.Task) ([]byte, error) {
					out, err := next.Handle(context.WithValue(ctx, keyOfWrap{}, typ), tk)
					if err != nil {
						ends = append(ends, err.Error())
					} else {
						ends = append(ends, string(out))
					}
					return out, err
				})
			}
		})
		if got := n.end(n.submit(engine.Request{Type: "x"})); got.State != task.Done || string(got.Result) != "ok" {
			t.Errorf("it is %v with %q", got.State, got.Result)
		}
		if !slices.Equal(ends, []string{"no", "ok"}) {
			t.Errorf("attempts ended with %v", ends)
		}
	})
}

func TestAPanicAroundAHandlerIsOneOfTheHandler(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		n := startWith(t, one("x", func(p *policy.Type) { p.Retry.Max = 1 }), handle("x", func(context.Context, *task.Task) ([]byte, error) {
			t.Error("the handler was called")
			return nil, nil
		}), func(c *engine.Config) {
			c.Wrap = func(string, task.Handler) task.Handler {
				return task.HandlerFunc(func(context.Context, *task.Task) ([]byte, error) { panic("around") })
			}
		})
		if got := n.end(n.submit(engine.Request{Type: "x"})); got.State != task.Error || !strings.Contains(got.LastError, "panic: around") {
			t.Errorf("it is %v: %s", got.State, got.LastError)
		}
	})
}

func TestAHandlerWithSlotsKeepsThemThoughItIsWrapped(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var j journal
		pool := &testPool{name: "plugin", fn: j.work(time.Minute), has: task.Capacity{Slots: 2}}
		n := startWith(t, one("x", nil), map[string]task.Handler{"x": pool}, func(c *engine.Config) {
			c.Wrap = func(_ string, next task.Handler) task.Handler {
				return task.HandlerFunc(func(ctx context.Context, tk *task.Task) ([]byte, error) {
					return next.Handle(context.WithValue(ctx, keyOfWrap{}, 1), tk)
				})
			}
		})
		var ids []task.ID
		for range 6 {
			ids = append(ids, n.submit(engine.Request{Type: "x"}))
		}
		for _, id := range ids {
			if got := n.end(id); got.State != task.Done {
				t.Errorf("it is %v: %s", got.State, got.LastError)
			}
		}
		if j.most != 2 {
			t.Errorf("%d ran at once, of 2 slots", j.most)
		}
	})
}

func TestAWrapThatReturnsNothingIsRefused(t *testing.T) {
	_, err := engine.Open(t.Context(), engine.Config{
		Store: memory.New(), Handlers: handle("x", nil), Wrap: func(string, task.Handler) task.Handler { return nil },
	})
	if err == nil || !strings.Contains(err.Error(), "type x") {
		t.Errorf("got %v", err)
	}
}

func TestDecorateCompletesWhateverAProgramAdds(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		type user struct{}
		n := startWith(t, ticking(nil), ticks(func(tk *task.Task) []engine.Request {
			return []engine.Request{{ID: tk.ID.Child(tk.ReadyAt, "child"), Type: "fire"}}
		}), func(c *engine.Config) {
			c.Decorate = func(ctx context.Context, r *engine.Request) error {
				r.Headers["by"], _ = ctx.Value(user{}).(string)
				if task.ReporterOf(ctx) != nil {
					r.Headers["by"] = "a handler"
				}
				return nil
			}
		})
		ctx := context.WithValue(t.Context(), user{}, "me")
		own := map[string]string{"a": "b"}
		receipts, err := n.Submit(ctx, engine.Request{Type: "fire", Headers: own}, engine.Request{Type: "tick"})
		if err != nil {
			t.Fatal(err)
		}
		if len(own) != 1 {
			t.Errorf("the headers of the caller became %v", own)
		}
		if got := n.get(receipts[0].ID).Headers; got["by"] != "me" || got["a"] != "b" {
			t.Errorf("headers of a submit: %v", got)
		}
		err = n.store.Update(ctx, func(tx storage.Tx) error {
			in, err := n.SubmitTx(ctx, tx, engine.Request{Type: "fire"})
			receipts = append(receipts, in...)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		if got := n.get(receipts[2].ID).Headers; got["by"] != "me" {
			t.Errorf("headers of a submit within a transaction: %v", got)
		}
		time.Sleep(time.Second)
		tick := n.get(receipts[1].ID)
		child := n.get(tick.ID.Child(tick.CreatedAt, "child"))
		if child.Headers["by"] != "a handler" {
			t.Errorf("headers of a task that a handler adds: %v", child.Headers)
		}
	})
}

func TestNothingIsAddedThatDecorateRefuses(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		n := startWith(t, one("x", nil), nil, func(c *engine.Config) {
			c.Decorate = func(_ context.Context, r *engine.Request) error {
				switch string(r.Payload) {
				case "bad":
					return errNo
				case "worse":
					panic("worse")
				}
				return nil
			}
		})
		for _, bad := range []string{"bad", "worse"} {
			_, err := n.Submit(t.Context(), engine.Request{Type: "x"}, engine.Request{Type: "x", Payload: []byte(bad)})
			if !errors.Is(err, engine.ErrInvalid) || !strings.Contains(err.Error(), "2 of 2") || bad == "bad" && !errors.Is(err, errNo) {
				t.Errorf("%s: %v", bad, err)
			}
		}
		if counts, err := n.Count(t.Context(), storage.Filter{}); err != nil || len(counts) > 0 {
			t.Errorf("there are %v, %v", counts, err)
		}
		id := n.submit(engine.Request{Type: "x"})
		if got := n.get(id); got.Headers != nil {
			t.Errorf("headers %v", got.Headers)
		}
	})
}
