package engine_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/storage/memory"
	"github.com/taskengine/taskengine/task"
)

// unanswered is a store that commits the next transactions of callers, and answers as if it had failed.
type unanswered struct {
	*memory.Store
	left *atomic.Int32
}

func (s unanswered) Update(ctx context.Context, fn func(storage.Tx) error) error {
	if s.left.Add(-1) < 0 {
		return s.Store.Update(ctx, fn)
	}
	return errors.Join(hookless{s.Store}.Update(ctx, fn), errNo)
}

// A signal is delivered, and the answer is lost. The task that has taken it ends, and its key goes to another one: that does not get it.
func TestASignalToAKeyIsTakenByOneTaskThoughTheAnswerOfItsDeliveryIsLost(t *testing.T) {
	for range 10 { // the moment of the next attempt is random
		inBubble(t, func(t *testing.T) {
			var left atomic.Int32
			set := one("order", func(p *policy.Type) { p.Retention.Done = 0 })
			set.Types["payment"] = policy.DefaultType()
			n := startWith(t, set, nil, func(c *engine.Config) {
				c.Store = unanswered{c.Store.(*memory.Store), &left}
				c.Handlers = map[string]task.Handler{
					"order": task.HandlerFunc(func(_ context.Context, t *task.Task) ([]byte, error) {
						if t.Woken().By == task.NotWoken {
							return nil, task.WaitFor([]string{"paid"}, time.Time{})
						}
						return nil, nil
					}),
					"payment": task.HandlerFunc(func(context.Context, *task.Task) ([]byte, error) {
						return nil, task.Again(time.Time{}, task.WithSignals(task.SignalRequest{Type: "order", Key: "7", Name: "paid", Keep: true}))
					}),
				}
			})
			first := n.submit(engine.Request{Type: "order", Key: "7"})
			time.Sleep(time.Millisecond)
			left.Store(1)
			n.submit(engine.Request{Type: "payment"})
			for tries := 0; ; tries++ { // after a commit without an answer the engine reads the rows
				if _, err := n.Get(t.Context(), first); errors.Is(err, task.ErrNotFound) {
					break
				}
				if time.Sleep(time.Millisecond); tries == 100_000 {
					t.Fatal("the first task has not taken the signal")
				}
			}
			second := n.submit(engine.Request{Type: "order", Key: "7"})
			time.Sleep(time.Hour)
			if got := n.expect(second, task.Waiting); got.Signals == nil || len(got.Signals.Kept) > 0 {
				t.Errorf("the second task has %+v", got.Signals)
			}
			if page, err := n.store.(storage.Inspector).List(t.Context(), storage.ListQuery{Filter: storage.Filter{Types: []string{"taskengine.relay"}}, Limit: 10, Scan: 1000}); err != nil || len(page.Tasks) > 0 {
				t.Errorf("on the way: %v, %v", page.Tasks, err)
			}
		})
	}
}
