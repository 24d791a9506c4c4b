package engine_test

import (
	"context"
	"errors"
	"testing"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

func TestPreparedRequestsAreAddedOnceAndOnlyInTheirTransaction(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		n := start(t, one("x", nil), handle("x", func(context.Context, *task.Task) ([]byte, error) { return nil, nil }))
		prepare := func() *engine.Prepared {
			p, err := n.Prepare(t.Context(), engine.Request{Type: "x", Key: "a"}, engine.Request{Type: "x", Key: "b"})
			if err != nil {
				t.Fatal(err)
			}
			return p
		}
		submit := func(p *engine.Prepared, fails error) (receipts []engine.Receipt, err error) {
			err = n.store.Update(t.Context(), func(tx storage.Tx) (err error) {
				if receipts, err = n.SubmitPreparedTx(t.Context(), tx, p); err != nil {
					return err
				}
				return fails
			})
			return receipts, err
		}
		prepare() // and throw it away
		failed := prepare()
		if _, err := submit(failed, errNo); !errors.Is(err, errNo) {
			t.Fatal(err)
		}
		if _, err := submit(failed, nil); err == nil {
			t.Error("requests of a transaction that has failed were submitted again")
		}
		first, second := prepare(), prepare()
		receipts, err := submit(first, nil)
		if err != nil || len(receipts) != 2 || !receipts[0].Created || !receipts[1].Created {
			t.Fatal(receipts, err)
		}
		for _, r := range receipts {
			if got := n.end(r.ID); got.State != task.Done {
				t.Errorf("%+v", got)
			}
		}
		if again, err := submit(second, nil); err != nil || again[0].Created || again[0].ID != receipts[0].ID {
			t.Errorf("the keys are taken: %+v, %v", again, err)
		}
		early, err := n.Prepare(t.Context(), engine.Request{Type: "x"}, engine.Request{Type: "x", ID: task.ID{0: 1}})
		if err != nil {
			t.Fatal(err)
		}
		added, err := n.Submit(t.Context(), engine.Request{Type: "x"})
		if err != nil {
			t.Fatal(err)
		}
		if late, err := submit(early, nil); err != nil || late[0].ID.Compare(added[0].ID) < 0 || late[1].ID != (task.ID{0: 1}) {
			t.Errorf("the ids are not in the order in which rows were added, or that of a request was changed: %+v after %+v, %v", late, added, err)
		}
		_, err = n.Prepare(t.Context(), engine.Request{Type: "x"}, engine.Request{})
		if invalid, ok := errors.AsType[*engine.InvalidRequestError](err); !ok || invalid.Index != 1 {
			t.Errorf("an invalid request: %v", err)
		}
	})
}
