package handler

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/taskengine/taskengine/plugins/internal/wire"
	"github.com/taskengine/taskengine/task"
)

// calls notes how many tasks each call has, and when it is.
type calls struct {
	begin time.Time

	mu   sync.Mutex
	seen []string // guarded by mu
}

func (c *calls) handler(size int, wait time.Duration) task.Handler {
	c.begin = time.Now()
	return Batch(size, wait, func(_ context.Context, tasks []*task.Task) ([]Outcome, error) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.seen = append(c.seen, fmt.Sprintf("%d after %v", len(tasks), time.Since(c.begin)))
		return nil, nil
	})
}

func (c *calls) expect(t *testing.T, want ...string) {
	t.Helper()
	synctest.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	if !slices.Equal(c.seen, want) {
		t.Errorf("the calls had %q, want %q", c.seen, want)
	}
}

func TestABatchIsCalledWhenItIsFullOrItsFirstTaskHasWaited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c calls
		h := meet(t, Program{Handlers: Handlers{"b": c.handler(3, time.Second)}, Slots: 100})
		h.run("b", 1, 2, 3, 4, 5, 6, 7)
		c.expect(t, "3 after 0s", "3 after 0s")
		time.Sleep(600 * time.Millisecond)
		h.run("b", 8)
		time.Sleep(time.Second)
		c.expect(t, "3 after 0s", "3 after 0s", "2 after 1s")
		for id := range uint64(8) {
			if _, ok := h.finish(id + 1).GetOutcome().(*wire.Finish_Result); !ok {
				t.Errorf("task %d was answered with {%v}", id+1, h.finish(id+1))
			}
		}
		h.run("b", 9)
		time.Sleep(time.Second)
		c.expect(t, "3 after 0s", "3 after 0s", "2 after 1s", "1 after 2.6s")
	})
}

func TestABatchDoesNotWaitForTasksThatCannotCome(t *testing.T) {
	idle := Func(func(ctx context.Context, _ *task.Task) ([]byte, error) { <-ctx.Done(); return nil, nil })
	for name, c := range map[string]struct {
		happens func(*host)
		want    string
	}{
		"its own tasks take all slots":  {func(h *host) { h.run("b", 3, 4) }, "3 after 0s"},
		"a task of another type does":   {func(h *host) { h.run("idle", 3, 4) }, "1 after 0s"},
		"the host has no more":          {func(h *host) { h.to <- &wire.ToHandler{Drain: &wire.Drain{}} }, "1 after 0s"},
		"there is a slot for one":       {func(h *host) { h.run("idle", 3); time.Sleep(time.Hour) }, "1 after 1h0m0s"},
		"there is a slot, and it comes": {func(h *host) { h.run("b", 3); time.Sleep(time.Hour) }, "2 after 1h0m0s"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var seen calls
				h := meet(t, Program{Handlers: Handlers{"b": seen.handler(10, time.Hour), "idle": idle}, Slots: 3})
				h.run("b", 1)
				c.happens(h)
				seen.expect(t, c.want)
			})
		})
	}
}

func TestATaskThatIsCancelledWhileItWaitsIsNotInTheCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c calls
		h := meet(t, Program{Handlers: Handlers{"b": c.handler(3, time.Second)}, Slots: 10})
		h.run("b", 1)
		time.Sleep(500 * time.Millisecond)
		h.cancel(1)
		if e := h.finish(1).GetError(); !strings.Contains(e.GetMessage(), "not needed") || e.GetPermanent() {
			t.Errorf("it was answered with {%v}", e)
		}
		h.run("b", 2, 3)
		h.cancel(2)
		time.Sleep(time.Second)
		c.expect(t, "1 after 1.5s") // the second batch has a wait of its own
		if h.finish(2).GetError() == nil || h.finish(3).GetError() != nil {
			t.Errorf("the others were answered with {%v}, {%v}", h.finish(2), h.finish(3))
		}
	})
}

func TestACallEndsWhenAllItsTasksAreCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var call context.Context
		var tasks []*task.Task
		h := meet(t, Program{Slots: 10, Handlers: Handlers{"b": Batch(2, 0, func(ctx context.Context, ts []*task.Task) ([]Outcome, error) {
			call, tasks = ctx, ts
			<-ctx.Done()
			return nil, context.Cause(ctx)
		})}})
		h.run("b", 1, 2)
		h.cancel(1)
		own := ContextOf(call, tasks[0])
		if own.Err() == nil || ContextOf(call, tasks[1]).Err() != nil || call.Err() != nil || h.finish(1) != nil {
			t.Errorf("of one cancelled task the contexts are %v, %v, that of the call %v; it was answered with {%v}",
				own.Err(), ContextOf(call, tasks[1]).Err(), call.Err(), h.finish(1))
		}
		h.cancel(2)
		for id := range uint64(2) {
			if e := h.finish(id + 1).GetError(); !strings.Contains(e.GetMessage(), "not needed") {
				t.Errorf("task %d was answered with {%v}", id+1, e)
			}
		}
		if ContextOf(own, tasks[0]) != own || ContextOf(call, new(task.Task)) != call {
			t.Error("ContextOf finds tasks that are not in the batch")
		}
	})
}

func TestWhatABatchHandlerAnswers(t *testing.T) {
	isError := func(text, class string, permanent bool) func(*wire.Finish) bool {
		return func(f *wire.Finish) bool {
			e := f.GetError()
			return strings.Contains(e.GetMessage(), text) && e.GetClass() == class && e.GetPermanent() == permanent && e.RetryDelay == nil
		}
	}
	isResult := func(want string) func(*wire.Finish) bool {
		return func(f *wire.Finish) bool {
			o, ok := f.GetOutcome().(*wire.Finish_Result)
			return ok && string(o.Result) == want
		}
	}
	for name, c := range map[string]struct {
		f           func() ([]Outcome, error)
		first, last func(*wire.Finish) bool
	}{
		"results":    {func() ([]Outcome, error) { return []Outcome{{Result: []byte("a")}, {Result: []byte("b")}}, nil }, isResult("a"), isResult("b")},
		"no results": {func() ([]Outcome, error) { return nil, nil }, isResult(""), isResult("")},
		"one fails": {
			func() ([]Outcome, error) {
				return []Outcome{{Err: task.Permanent(errors.New("no"))}, {Result: []byte("b")}}, nil
			}, isError("no", "", true), isResult("b"),
		},
		"one is snoozed": {
			func() ([]Outcome, error) { return []Outcome{{}, {Err: task.Snooze(time.Second)}}, nil },
			isResult(""), func(f *wire.Finish) bool { return f.GetSnooze().GetDelay() == 1e6 },
		},
		"all fail":         {func() ([]Outcome, error) { return []Outcome{{}, {}}, errors.New("down") }, isError("down", "", false), isError("down", "", false)},
		"all fail at last": {func() ([]Outcome, error) { return nil, task.Permanent(errors.New("no")) }, isError("no", "", true), isError("no", "", true)},
		"too few":          {func() ([]Outcome, error) { return []Outcome{{}}, nil }, isError("1 outcomes to 2 tasks", "", false), isError("1 outcomes", "", false)},
		"none":             {func() ([]Outcome, error) { return []Outcome{}, nil }, isError("0 outcomes to 2 tasks", "", false), isError("0 outcomes", "", false)},
		"a panic":          {func() ([]Outcome, error) { panic("ouch") }, isError("ouch", "panic", false), isError("ouch", "panic", false)},
		"its goroutine ends": {
			func() ([]Outcome, error) { runtime.Goexit(); return nil, nil }, isError("Goexit", "panic", false), isError("Goexit", "panic", false),
		},
		"an error panics": {
			func() ([]Outcome, error) { return []Outcome{{Err: rudeError{}}, {}}, nil }, isError("no text", "panic", false), isResult(""),
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := Batch(2, time.Hour, func(context.Context, []*task.Task) ([]Outcome, error) { return c.f() })
				h := meet(t, Program{Handlers: Handlers{"b": b}, Slots: 10})
				h.run("b", 1, 2)
				if first, last := h.finish(1), h.finish(2); !c.first(first) || !c.last(last) {
					t.Errorf("the answers are {%v}, {%v}", first, last)
				}
			})
		})
	}
}

// rudeError is an error without a text.
type rudeError struct{}

func (rudeError) Error() string { panic("no text") }

func TestTasksThatWaitDoNotHoldUpTheEndOfTheProgram(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c calls
		h := meet(t, Program{Handlers: Handlers{"b": c.handler(3, time.Hour)}, Slots: 10})
		h.run("b", 1, 2)
		h.leave()
		c.expect(t)
		if took := time.Since(c.begin); took > 0 {
			t.Errorf("it took %v to end", took)
		}
	})
}

func TestABatchThatMakesNoSenseIsOfOneTask(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c calls
		h := meet(t, Program{Handlers: Handlers{"b": c.handler(-1, -time.Second)}, Slots: 10})
		h.run("b", 1, 2)
		c.expect(t, "1 after 0s", "1 after 0s")
	})
}

// A task that is handled by others than a program waits for others as well.
func TestABatchOfAnEngine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := Batch(2, time.Second, func(_ context.Context, tasks []*task.Task) ([]Outcome, error) {
			return nil, fmt.Errorf("there are %d", len(tasks))
		})
		for _, n := range []int{2, 1} {
			errs := make(chan error, n)
			for range n {
				go func() { _, err := b.Handle(t.Context(), new(task.Task)); errs <- err }()
			}
			for range n {
				if err := <-errs; err.Error() != fmt.Sprintf("there are %d", n) {
					t.Errorf("of %d tasks one was answered with %q", n, err)
				}
			}
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(errHost)
		if _, err := b.Handle(ctx, new(task.Task)); !errors.Is(err, errHost) {
			t.Errorf("a cancelled task was answered with %v", err)
		}
	})
}
