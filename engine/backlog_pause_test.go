package engine_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

// paused returns a set with the type mail, of which the sources pause if more than most tasks have not
// started. One task runs at a time.
func paused(most int) policy.Set {
	return capped(policy.Backlog{Max: most, WhenFull: policy.PauseSource})
}

func TestCallersWaitForRoomInTheOrderInWhichTheyCame(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		handlers, next := blocked()
		n := start(t, paused(1), handlers)
		n.submit(engine.Request{Type: "mail"}) // runs
		n.submit(engine.Request{Type: "mail"})
		added := make(chan string, 4)
		for i := range 3 {
			go func() {
				receipts, err := n.Submit(context.Background(), engine.Request{Type: "mail", Key: fmt.Sprint(i)})
				added <- fmt.Sprint(i, err == nil && receipts[0].Created)
			}()
			synctest.Wait()
		}
		if got := n.backlog(); got.Tasks != 1 || got.Waiting != 3 || got.Refused != 0 || len(added) != 0 {
			t.Errorf("got %+v, and %d calls have returned", got, len(added))
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_, err := n.Submit(ctx, engine.Request{Type: "mail"})
		if !errors.Is(err, engine.ErrBacklog) || !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "has 1 tasks and 4 that wait for room") {
			t.Errorf("a call after the end of its context: %v", err)
		}
		for i := range 3 {
			next <- struct{}{}
			if got, want := <-added, fmt.Sprint(i, true); got != want {
				t.Errorf("%s got room, want %s", got, want)
			}
		}
		if got := n.backlog(); got.Tasks != 1 || got.Waiting != 0 || got.Refused != 1 {
			t.Errorf("got %+v", got)
		}
	})
}

func TestACallThatCannotWaitIsRefused(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		handlers, _ := blocked()
		n := start(t, paused(1), handlers)
		ctx := context.Background()
		n.submit(engine.Request{Type: "mail"}) // runs
		keyed := engine.Request{Type: "mail", Key: "k"}
		n.submit(keyed)
		if _, err := n.Submit(ctx, mails(2)...); !errors.Is(err, engine.ErrBacklog) || !strings.Contains(err.Error(), "submit fewer") {
			t.Errorf("more than there can ever be: %v", err)
		}
		err := n.store.Update(ctx, func(tx storage.Tx) error {
			_, err := n.SubmitTx(ctx, tx, engine.Request{Type: "mail"})
			return err
		})
		if !errors.Is(err, engine.ErrBacklog) {
			t.Errorf("a transaction: %v", err)
		}
		if receipts, err := n.Submit(ctx, keyed); err != nil || receipts[0].Created {
			t.Errorf("a task that exists: %+v, %v", receipts, err)
		}
		ended := make(chan error)
		go func() {
			_, err := n.Submit(ctx, engine.Request{Type: "mail", Key: "other"})
			ended <- err
		}()
		synctest.Wait()
		closing, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		go func() { _ = n.Close(closing) }()
		if err := <-ended; !errors.Is(err, engine.ErrClosed) {
			t.Errorf("a call that waits when the engine closes: %v", err)
		}
	})
}

// A handler has a slot, which the tasks that it waits for may need.
func TestAHandlerDoesNotWaitForRoomAndItsTaskHasAPlaceInTheLine(t *testing.T) {
	for name, add := range map[string]func(ctx context.Context, e *engine.Engine, t *task.Task) error{
		"Submit": func(ctx context.Context, e *engine.Engine, t *task.Task) error {
			_, err := e.Submit(ctx, engine.Request{Type: "mail", Key: "child"})
			if err != nil {
				return fmt.Errorf("add a child: %w", err)
			}
			return nil
		},
		"WithTasks": func(_ context.Context, _ *engine.Engine, t *task.Task) error {
			return task.Again(time.Time{}, task.WithTasks(engine.Request{Type: "mail", Key: "child"}))
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				set := paused(1)
				parent := policy.DefaultType()
				parent.Retry.Max = 1
				set.Types["parent"], set.Slots = parent, 1 // which the parent and the mails share
				handlers := handle("mail", takes(10*time.Second))
				handlers["parent"] = task.HandlerFunc(func(ctx context.Context, row *task.Task) ([]byte, error) {
					e, _ := engine.FromContext(ctx)
					return nil, add(ctx, e, row)
				})
				n := start(t, set, handlers)
				n.submit(engine.Request{Type: "mail"}) // runs
				n.submit(engine.Request{Type: "mail"})
				id := n.submit(engine.Request{Type: "parent", Priority: new(uint8)})
				time.Sleep(11 * time.Second)
				got := n.get(id)
				if got.State != task.Waiting || got.Attempt != 0 || !strings.Contains(got.LastError, "its task runs again") {
					t.Fatalf("the parent is %v after %d attempts: %s", got.State, got.Attempt, got.LastError)
				}
				later := make(chan task.ID)
				go func() { later <- n.submit(engine.Request{Type: "mail"}) }()
				if got := n.end(id); got.State != task.Done {
					t.Fatalf("the parent is %v: %s", got.State, got.LastError)
				}
				child, after := n.get(n.submit(engine.Request{Type: "mail", Key: "child"})), n.end(<-later)
				if child.Seq == 0 || child.Seq > after.Seq {
					t.Errorf("a caller that came later was served before: %d and %d", after.Seq, child.Seq)
				}
				if got := n.backlog(); got.Refused != 0 {
					t.Errorf("got %+v", got)
				}
			})
		})
	}
}
