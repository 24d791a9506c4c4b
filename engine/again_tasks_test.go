package engine_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

// ticks returns handlers of the type tick, with tasks that run again every minute and add the requests of fn,
// and of the type fire.
func ticks(fn func(*task.Task) []engine.Request) map[string]task.Handler {
	return map[string]task.Handler{
		"fire": task.HandlerFunc(func(context.Context, *task.Task) ([]byte, error) { return nil, nil }),
		"tick": task.HandlerFunc(func(_ context.Context, t *task.Task) ([]byte, error) {
			return nil, task.Again(time.Now().Add(time.Minute), task.WithTasks(fn(t)...))
		}),
	}
}

// ticking returns a set with the types tick and fire, the latter changed by fn.
func ticking(fn func(*policy.Type)) policy.Set {
	set := one("tick", func(p *policy.Type) {
		p.Retry.Max = 3
	})
	set.Types["fire"] = one("fire", fn).Types["fire"]
	return set
}

// fired returns how many tasks of the type fire there are.
func (n *node) fired() (total int64) {
	n.t.Helper()
	counts, err := n.Count(context.Background(), storage.Filter{Types: []string{"fire"}})
	if err != nil {
		n.t.Fatal(err)
	}
	for _, c := range counts {
		total += c
	}
	return total
}

func TestTasksAreAddedEachTimeThatATaskRunsAgain(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		n := start(t, ticking(nil), ticks(func(t *task.Task) []engine.Request {
			at := time.Now().Truncate(time.Minute)
			return []engine.Request{{Type: "fire"}, {Type: "fire", ID: t.ID.Child(at, "a")}, {Type: "fire", ID: t.ID.Child(at, "a")}, {Type: "fire", At: at.Add(time.Hour)}}
		}))
		n.close()
		var heard atomic.Int64
		n.config.Observer.Inserted = func(_ time.Time, t *task.Task) {
			if t.Type == "fire" {
				heard.Add(1)
			}
		}
		n.open()
		id := n.submit(engine.Request{Type: "tick"})
		time.Sleep(9*time.Minute + time.Second)
		if got := n.fired(); got != 30 || heard.Load() != 30 {
			t.Errorf("%d tasks were added and %d reported in ten runs, want 30", got, heard.Load())
		}
		if _, err := n.Cancel(t.Context(), task.Ref{ID: id}, ""); err != nil {
			t.Error(err)
		}
		if err := n.WaitType(t.Context(), "fire"); err != nil {
			t.Error(err)
		}
	})
}

func TestATaskThatIsDoneMayAddTasks(t *testing.T) {
	for _, keep := range []time.Duration{time.Hour, 0} {
		inBubble(t, func(t *testing.T) {
			set := ticking(nil)
			last := set.Types["tick"]
			last.Retention.Done = keep
			set.Types["tick"] = last
			handlers := ticks(nil)
			handlers["tick"] = task.HandlerFunc(func(context.Context, *task.Task) ([]byte, error) {
				return []byte("r"), task.Again(time.Time{}, task.WithTasks(engine.Request{Type: "fire"}))
			})
			n := start(t, set, handlers)
			n.submit(engine.Request{Type: "tick"})
			time.Sleep(time.Second)
			if got := n.fired(); got != 1 {
				t.Errorf("%d tasks were added, want 1", got)
			}
		})
	}
}

func TestARequestThatIsNotValidFailsTheAttemptAndAddsNothing(t *testing.T) {
	for name, c := range map[string]struct {
		bad  engine.Request
		want string
	}{
		"no type": {engine.Request{}, "type is missing"},
		"payload": {engine.Request{Type: "fire", Payload: make([]byte, 100)}, "payload has 100 bytes, of 99 allowed by max_payload of type fire"},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				n := start(t, ticking(func(p *policy.Type) { p.MaxPayload = 99 }), ticks(func(*task.Task) []engine.Request {
					return []engine.Request{{Type: "fire"}, c.bad}
				}))
				got := n.end(n.submit(engine.Request{Type: "tick"}))
				if got.State != task.Error || got.Attempt != 3 || !strings.Contains(got.LastError, "invalid request 2 of 2: "+c.want) {
					t.Errorf("it is %v after %d attempts: %s", got.State, got.Attempt, got.LastError)
				}
				if n.fired() != 0 {
					t.Errorf("%d tasks were added", n.fired())
				}
			})
		})
	}
}

func TestAFullBacklogFailsTheAttemptUntilThereIsRoom(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		set := ticking(func(p *policy.Type) { p.MaxBacklog = policy.Backlog{Max: 2} })
		known := task.ID{1: 7, 15: 9}
		n := start(t, set, ticks(func(*task.Task) []engine.Request { return []engine.Request{{Type: "fire"}, {Type: "fire", ID: known}} }))
		later := n.submit(engine.Request{Type: "fire", At: time.Now().Add(1500 * time.Millisecond)})
		n.submit(engine.Request{Type: "fire", At: time.Now().Add(time.Hour), ID: known})
		id := n.submit(engine.Request{Type: "tick"})
		time.Sleep(500 * time.Millisecond)
		if got := n.expect(id, task.Waiting); !strings.Contains(got.LastError, "the backlog is full: type fire has 2 tasks that have not started, of 2 allowed by max_backlog, and the request adds 1 more") {
			t.Errorf("its error is %q", got.LastError)
		}
		if n.fired() != 2 {
			t.Errorf("there are %d tasks", n.fired())
		}
		time.Sleep(5 * time.Second)
		n.expect(later, task.Done)
		if got := n.expect(id, task.Waiting); got.Attempt != 0 || n.fired() != 3 {
			t.Errorf("after %d attempts there are %d tasks: %s", got.Attempt, n.fired(), got.LastError)
		}
		if _, err := n.Cancel(t.Context(), task.Ref{ID: id}, ""); err != nil {
			t.Error(err)
		}
	})
}

func TestAHandlerMayReturnTheSameAgainTwice(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		handlers := ticks(nil)
		again := task.Again(time.Now().Add(-time.Hour), task.WithPayload([]byte("p")), task.WithTasks(engine.Request{Type: "fire"}))
		var calls atomic.Int64
		handlers["tick"] = task.HandlerFunc(func(context.Context, *task.Task) ([]byte, error) {
			if calls.Add(1) > 20 {
				return nil, nil
			}
			return nil, fmt.Errorf("said: %w", again)
		})
		n := start(t, ticking(nil), handlers)
		for range 2 {
			n.submit(engine.Request{Type: "tick"})
		}
		if err := n.WaitType(t.Context(), "tick"); err != nil {
			t.Fatal(err)
		}
		if n.fired() != 20 {
			t.Errorf("%d tasks were added in 20 runs", n.fired())
		}
	})
}
