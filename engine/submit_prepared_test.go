package engine_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/internal/reserved"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

func TestPreparedRequestsAreAddedOnceAndOnlyInTheirTransaction(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := &preparing{T: t}
		set, handlers := one("x", nil), handle("x", func(context.Context, *task.Task) ([]byte, error) { return nil, nil })
		feed := policy.DefaultType()
		feed.Retry.Max = 1
		set.Types["feed"], handlers["feed"] = feed, task.HandlerFunc(p.feed)
		p.node = start(t, set, handlers)
		receipts, err := p.Submit(t.Context(), engine.Request{Type: "feed"})
		if err != nil {
			t.Fatal(err)
		}
		if got := p.end(receipts[0].ID); got.State != task.Done {
			t.Errorf("%+v", got)
		}
		for _, r := range p.added {
			if got := p.end(r.ID); got.State != task.Done {
				t.Errorf("%+v", got)
			}
		}
	})
}

// preparing is a node with a task that adds others by its relay.
type preparing struct {
	*testing.T
	*node
	added []engine.Receipt // by the handler of the task, before it ends
}

func (p *preparing) feed(ctx context.Context, _ *task.Task) ([]byte, error) {
	relay, err := p.OpenRelay(ctx, reserved.Owner{}, p.store)
	if err != nil {
		return nil, err
	}
	prepare := func(reqs ...engine.Request) *engine.Prepared {
		prepared, err := p.Prepare(ctx, reqs...)
		if err != nil {
			p.Error(err)
		}
		return prepared
	}
	submit := func(of *engine.Prepared, fails error) (receipts []engine.Receipt, err error) {
		placed, err := relay.Place(ctx, of)
		if err != nil {
			return nil, err
		}
		err = relay.Update(ctx, func(tx storage.Tx) (err error) {
			if receipts, err = relay.SubmitTx(ctx, tx, placed); err != nil {
				return err
			}
			return fails
		})
		return receipts, err
	}
	a, b := engine.Request{Type: "x", Key: "a"}, engine.Request{Type: "x", Key: "b"}
	prepare(a, b) // and throw it away
	failed := prepare(a, b)
	if _, err := submit(failed, errNo); !errors.Is(err, errNo) {
		return nil, fmt.Errorf("a transaction that fails: %w", err)
	}
	if _, err := submit(failed, nil); err == nil {
		p.Error("requests of a transaction that has failed were submitted again")
	}
	first, second := prepare(a, b), prepare(a, b)
	if p.added, err = submit(first, nil); err != nil || len(p.added) != 2 || !p.added[0].Created || !p.added[1].Created {
		return nil, fmt.Errorf("%+v, %w", p.added, err)
	}
	if again, err := submit(second, nil); err != nil || again[0].Created || again[0].ID != p.added[0].ID {
		p.Errorf("the keys are taken: %+v, %v", again, err)
	}
	early := prepare(engine.Request{Type: "x"}, engine.Request{Type: "x", ID: task.ID{0: 1}})
	added, err := p.Submit(ctx, engine.Request{Type: "x"})
	if err != nil {
		return nil, err
	}
	if late, err := submit(early, nil); err != nil || late[0].ID.Compare(added[0].ID) < 0 || late[1].ID != (task.ID{0: 1}) {
		p.Errorf("the ids are not in the order in which rows were added, or that of a request was changed: %+v after %+v, %v", late, added, err)
	}
	_, err = p.Prepare(ctx, engine.Request{Type: "x"}, engine.Request{})
	if invalid, ok := errors.AsType[*engine.InvalidRequestError](err); !ok || invalid.Index != 1 {
		p.Errorf("an invalid request: %v", err)
	}
	return nil, nil
}
