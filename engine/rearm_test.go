package engine_test

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/task"
)

func TestATaskThatAsksToBeCalledAgainAtOnceRestsLongerEachTime(t *testing.T) {
	turn := false
	for name, ask := range map[string]func() error{
		"snooze":          func() error { return task.Snooze(0) },
		"negative":        func() error { return task.Snooze(-time.Hour) },
		"a millisecond":   func() error { return task.Snooze(time.Millisecond) },
		"again":           func() error { return task.Again(time.Now().Add(-time.Hour)) },
		"again now":       func() error { return task.Again(time.Now()) },
		"a retry at once": func() error { return task.RetryIn(0, errors.New("no")) },
		"retries and snoozes": func() error {
			if turn = !turn; turn {
				return task.Snooze(0)
			}
			return task.RetryIn(0, errors.New("no"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				var calls atomic.Int64
				var heard logLines
				forever := one("x", func(p *policy.Type) { p.Retry.Max = policy.Forever })
				n := start(t, forever, handle("x", func(context.Context, *task.Task) ([]byte, error) {
					calls.Add(1)
					return nil, ask()
				}))
				n.close()
				n.config.Log = slog.New(&heard)
				n.open()
				id := n.submit(engine.Request{Type: "x"})
				time.Sleep(100 * time.Millisecond)
				if got := calls.Load(); got < 3 {
					t.Errorf("after 100 ms it was called %d times: a few times are nothing", got)
				}
				time.Sleep(time.Hour)
				if got := calls.Load(); got > 100 {
					t.Errorf("it was called %d times in an hour", got)
				}
				if n.Stats().Slowed == 0 || heard.count("again and again") == 0 {
					t.Errorf("nothing is logged: %+v", n.Stats())
				}
				if _, err := n.Cancel(t.Context(), task.Ref{ID: id}, ""); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

func TestATaskThatAsksInReasonRestsNoLonger(t *testing.T) {
	begin := time.Now()
	for name, c := range map[string]struct {
		takes time.Duration
		ask   func(call int64) error
		least int64 // calls in ten minutes
	}{
		"it is called again after half a second":    {0, func(int64) error { return task.Snooze(500 * time.Millisecond) }, 1190},
		"it works for half a second at a time":      {500 * time.Millisecond, func(int64) error { return task.Snooze(0) }, 1100},
		"it catches up with a schedule of a minute": {0, func(n int64) error { return task.Again(begin.Add(time.Duration(n-5000) * time.Minute)) }, 4000},
		"it asks at once after every ten seconds":   {0, func(n int64) error { return task.Snooze(time.Duration(n%2) * 10 * time.Second) }, 110},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				begin = time.Now()
				var calls atomic.Int64
				n := start(t, one("x", nil), handle("x", func(context.Context, *task.Task) ([]byte, error) {
					time.Sleep(c.takes)
					return nil, c.ask(calls.Add(1))
				}))
				id := n.submit(engine.Request{Type: "x"})
				time.Sleep(10 * time.Minute)
				if got := calls.Load(); got < c.least {
					t.Errorf("it was called %d times, want %d", got, c.least)
				}
				if s := n.Stats(); s.Slowed != 0 {
					t.Errorf("it was slowed %d times", s.Slowed)
				}
				if _, err := n.Cancel(t.Context(), task.Ref{ID: id}, ""); err != nil {
					t.Error(err)
				}
			})
		})
	}
}
