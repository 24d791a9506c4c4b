package engine_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/internal/reserved"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

func TestReservedTypesAndIDsAreForTheirOwners(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		ours := task.ID{6: 0x82, 8: 0x80, 15: 1}
		requests := map[string]engine.Request{
			`type "taskengine.schedule" is reserved`: {Type: "taskengine.schedule"},
			`type "taskengine.later" is reserved`:    {Type: "taskengine.later"},
			"id " + ours.String() + " is reserved":   {Type: "mail", ID: ours},
		}
		var next atomic.Pointer[engine.Request]
		var tx atomic.Bool
		var n *node
		n = start(t, one("mail", nil), handle("mail", func(ctx context.Context, t *task.Task) ([]byte, error) {
			if tx.Load() {
				return nil, n.store.Update(ctx, func(tx storage.Tx) error {
					_, err := n.SubmitTx(ctx, tx, *next.Load())
					return err
				})
			}
			return nil, task.Again(time.Now().Add(time.Hour), task.WithTasks(*next.Load()))
		}))
		for want, r := range requests {
			if receipts, err := n.Submit(t.Context(), engine.Request{Type: "mail"}, r); !errors.Is(err, engine.ErrInvalid) || !strings.Contains(err.Error(), want) {
				t.Errorf("submitted: %+v, %v; want %q", receipts, err, want)
			}
			for _, within := range []bool{false, true} {
				tx.Store(within)
				next.Store(&r)
				id := n.submit(engine.Request{Type: "mail"})
				time.Sleep(time.Second)
				if got := n.get(id); !strings.Contains(got.LastError, want) {
					t.Errorf("added by a handler (in a transaction: %v): %v, %q", within, got.State, got.LastError)
				}
				if _, err := n.Cancel(t.Context(), task.Ref{ID: id}, ""); err != nil {
					t.Fatal(err)
				}
			}
			receipt, err := n.SubmitReserved(t.Context(), reserved.Owner{}, r)
			if err != nil || !receipt.Created {
				t.Errorf("by its owner: %+v, %v", receipt, err)
			}
		}
	})
}

func TestADecoratorCannotReachWhatIsReserved(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		n := startWith(t, one("mail", nil), handle("mail", func(context.Context, *task.Task) ([]byte, error) { return nil, nil }), func(c *engine.Config) {
			c.Decorate = func(_ context.Context, r *engine.Request) error {
				r.Type = "taskengine.schedule"
				return nil
			}
		})
		if receipts, err := n.Submit(t.Context(), engine.Request{Type: "mail"}); !errors.Is(err, engine.ErrInvalid) {
			t.Errorf("submitted: %+v, %v", receipts, err)
		}
	})
}
