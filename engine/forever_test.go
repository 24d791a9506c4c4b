package engine_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/task"
)

func TestATaskThatIsRetriedForeverEndsOnlyByAnAnswerOrByAPerson(t *testing.T) {
	forever := func(p *policy.Type) { p.Retry.Max = policy.Forever }
	for name, c := range map[string]struct {
		change  func(*policy.Type)
		answer  func(attempt uint32) error
		cancel  bool
		state   task.State
		attempt uint32
		says    string
	}{
		"success": {func(*policy.Type) {}, func(n uint32) error {
			if n < 40 {
				return errNo
			}
			return nil
		}, false, task.Done, 40, ""},
		"a permanent error": {func(*policy.Type) {}, func(n uint32) error {
			if n < 40 {
				return errNo
			}
			return task.Permanent(errNo)
		}, false, task.Error, 40, "no"},
		"crashes":       {func(p *policy.Type) { p.MaxCrashes = 3 }, func(uint32) error { return fmt.Errorf("%w: no", task.ErrCrashed) }, false, task.Error, 3, "quarantined after 3 crashes"},
		"its expiry":    {func(p *policy.Type) { p.Timeout.Total = 90 * time.Minute }, func(uint32) error { return errNo }, false, task.Error, 13, "before it expires"},
		"being stopped": {func(*policy.Type) {}, func(uint32) error { return errNo }, true, task.Cancelled, 40, ""},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				n := start(t, one("x", func(p *policy.Type) { forever(p); c.change(p) }), handle("x", func(_ context.Context, t *task.Task) ([]byte, error) {
					return nil, c.answer(t.Attempt)
				}))
				id := n.submit(engine.Request{Type: "x"})
				if c.cancel {
					for time.Sleep(time.Hour); n.expect(id, task.Waiting).Attempt < 40; {
						time.Sleep(time.Hour)
					}
					_, why, err := n.Why(t.Context(), id)
					if err != nil || len(why) != 1 || why[0].Code != engine.CodeRetry || !strings.Contains(why[0].Text, "attempt 41 of forever follows") {
						t.Errorf("why: %+v %v", why, err)
					}
					if _, err := n.Cancel(t.Context(), task.Ref{ID: id}, "enough"); err != nil {
						t.Fatal(err)
					}
				}
				got := n.end(id)
				if got.State != c.state || got.Attempt != c.attempt || !strings.Contains(got.LastError, c.says) {
					t.Errorf("it is %v after attempt %d: %s", got.State, got.Attempt, got.LastError)
				}
			})
		})
	}
}
