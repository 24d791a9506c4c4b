package engine_test

import (
	"context"
	"errors"
	"testing"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/storage/memory"
	"github.com/taskengine/taskengine/task"
)

// lookless is a transaction that does not answer whether tasks exist.
type lookless struct{ storage.Tx }

func (lookless) Existing(context.Context, ...*task.Task) ([]task.ID, error) { return nil, errNo }

func TestARequestAfterAMissingTaskIsNotInvalidIfTheStoreDoesNotAnswer(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := memory.New()
		n := &node{t: t, store: s, config: engine.Config{Store: s, Policies: one("x", nil), Handlers: handle("x", new(journal).work(0))}}
		n.open()
		t.Cleanup(n.close)
		submit := func(wrap func(storage.Tx) storage.Tx) error {
			return s.Update(t.Context(), func(tx storage.Tx) error {
				_, err := n.SubmitTx(t.Context(), wrap(tx), engine.Request{Type: "x", After: []task.ID{{1}}})
				return err
			})
		}
		if err := submit(func(tx storage.Tx) storage.Tx { return lookless{tx} }); !errors.Is(err, errNo) || errors.Is(err, engine.ErrInvalid) {
			t.Errorf("a store that does not answer: %v", err)
		}
		if err := submit(func(tx storage.Tx) storage.Tx { return tx }); !errors.Is(err, engine.ErrNoSuchTask) || !errors.Is(err, engine.ErrInvalid) {
			t.Errorf("a store that answers: %v", err)
		}
	})
}
