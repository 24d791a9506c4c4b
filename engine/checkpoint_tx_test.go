package engine_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

// An attempt adds tasks part by part, each with its checkpoint in one transaction. It fails in the middle, once before
// and once after a commit: each part is added once.
func TestEachPartIsAddedOnceWithItsCheckpoint(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		const parts = 20
		var n *node
		var begun []string
		policies := one("list", nil)
		policies.Types["part"] = policies.Types["list"]
		handlers := handle("part", func(context.Context, *task.Task) ([]byte, error) { return nil, nil })
		handlers["list"] = task.HandlerFunc(func(ctx context.Context, tk *task.Task) ([]byte, error) {
			begun = append(begun, string(tk.Checkpoint()))
			first := byte(0)
			if c := tk.Checkpoint(); len(c) > 0 {
				first = c[0]
			}
			for i := first; i < parts; i++ {
				err := n.store.Update(ctx, func(tx storage.Tx) error {
					if _, err := n.SubmitTx(ctx, tx, engine.Request{Type: "part", Payload: []byte{i}}); err != nil {
						return err
					}
					if err := engine.CheckpointTx(ctx, tx, []byte{i + 1}); err != nil {
						return err
					}
					if i == 5 && tk.Attempt == 1 {
						return errNo
					}
					return nil
				})
				if err != nil {
					return nil, err
				}
				if i == 12 && tk.Attempt == 2 {
					return nil, errNo
				}
			}
			return nil, nil
		})
		n = start(t, policies, handlers)
		id := n.submit(engine.Request{Type: "list"})
		if got := n.end(id); got.State != task.Done || got.Attempt != 3 || got.Checkpoint() != nil {
			t.Errorf("it is %+v", got)
		}
		if want := []string{"", "\x05", "\x0d"}; !slices.Equal(begun, want) {
			t.Errorf("its attempts began with the checkpoints %q, want %q", begun, want)
		}
		time.Sleep(time.Minute)
		count := make(map[byte]int)
		rows, _, err := n.List(t.Context(), storage.Filter{Types: []string{"part"}}, task.ID{}, 100)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range rows {
			count[n.expect(r.ID, task.Done).Payload[0]]++
		}
		for i := range byte(parts) {
			if count[i] != 1 {
				t.Errorf("part %d was added %d times", i, count[i])
			}
		}
	})
}

// An attempt that was overruled adds nothing more, although its handler goes on.
func TestAnAttemptThatIsOverCommitsNoCheckpoint(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var n *node
		after := make(chan error, 1)
		n = start(t, one("list", nil), handle("list", func(ctx context.Context, _ *task.Task) ([]byte, error) {
			<-ctx.Done()
			ctx = context.WithoutCancel(ctx)
			after <- n.store.Update(ctx, func(tx storage.Tx) error {
				if _, err := n.SubmitTx(ctx, tx, engine.Request{Type: "list", At: time.Now().Add(time.Hour)}); err != nil {
					return err
				}
				return engine.CheckpointTx(ctx, tx, []byte("late"))
			})
			return nil, nil
		}))
		id := n.submit(engine.Request{Type: "list"})
		time.Sleep(time.Second)
		if _, err := n.Cancel(t.Context(), task.Ref{ID: id}, "not wanted"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if err := <-after; !errors.Is(err, engine.ErrAttemptOver) {
			t.Errorf("the transaction: %v", err)
		}
		if got := n.expect(id, task.Cancelled); got.Checkpoint() != nil {
			t.Errorf("it has the checkpoint %q", got.Checkpoint())
		}
		if rows, _, err := n.List(t.Context(), storage.Filter{States: []task.State{task.Waiting}}, task.ID{}, 10); err != nil || len(rows) != 0 {
			t.Errorf("%d tasks were added, %v", len(rows), err)
		}
		err := n.store.Update(t.Context(), func(tx storage.Tx) error { return engine.CheckpointTx(t.Context(), tx, nil) })
		if err == nil || errors.Is(err, engine.ErrAttemptOver) {
			t.Errorf("outside of a handler: %v", err)
		}
	})
}
