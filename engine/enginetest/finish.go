package enginetest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

var finishScenarios = []scenario{
	{"a task finished within a transaction is done if and only if that commits", finishes},
	{"what a handler does in the transaction that finishes its task happens once", effects},
	{"the transaction of an attempt that was cancelled changes nothing", cancelledFinish},
	{"a task runs again by a transaction if and only if that commits, with its payload and checkpoint, also over restarts", runsAgainByTx},
}

// finishTx finishes the task of ctx in a transaction that has an effect: another task. The
// transaction fails in the end if fails is not nil.
func (n *node) finishTx(ctx context.Context, result string, fails error) error {
	return n.store.Update(ctx, func(tx storage.Tx) error {
		if _, err := n.opened().SubmitTx(ctx, tx, engine.Request{Type: "effect"}); err != nil {
			return err
		}
		return errors.Join(engine.FinishTx(ctx, tx, []byte(result)), fails)
	})
}

// expectEffects fails the test unless there is this number of effects.
func (n *node) expectEffects(want int) {
	n.Helper()
	if err := n.WaitType(n.ctx, "effect"); err != nil {
		n.Fatal(err)
	}
	counts, err := n.Count(n.ctx, storage.Filter{Types: []string{"effect"}})
	if err != nil {
		n.Fatal(err)
	}
	if got := counts[storage.StateType{State: task.Done, Type: "effect"}]; got != int64(want) || len(counts) > 1 {
		n.Errorf("there are the effects %v, want %d", counts, want)
	}
}

func finishes(n *node) {
	n.start(types(10, nil, "pay", "effect"), map[string]handle{"effect": done, "pay": func(ctx context.Context, t *task.Task) ([]byte, error) {
		if t.Attempt == 1 {
			err := n.finishTx(ctx, "never", errNo)
			if !errors.Is(err, errNo) || errors.Is(err, engine.ErrAttemptOver) {
				n.Errorf("got %v", err)
			}
			return nil, err
		}
		return []byte("returned"), n.finishTx(ctx, "finished", nil)
	}})
	ids := n.submit(repeat(20, func(int) engine.Request { return engine.Request{Type: "pay"} })...)
	for _, id := range ids {
		if t := n.expect(id, task.Done); string(t.Result) != "finished" || t.Attempt != 2 {
			n.Errorf("attempt %d, result %q", t.Attempt, t.Result)
		}
	}
	n.expectEffects(len(ids))
}

// effects lets handlers fail in all ways after their transaction has committed, with and without
// retention of finished tasks.
func effects(n *node) {
	for _, keep := range []time.Duration{time.Hour, 0} {
		n.start(types(10, func(p *policy.Type) { p.Retention.Done = keep }, "pay"), map[string]handle{"effect": done, "pay": func(ctx context.Context, t *task.Task) ([]byte, error) {
			if err := n.finishTx(ctx, "paid", nil); err != nil {
				return nil, err
			}
			switch t.Payload[0] % 4 {
			case 0:
				return nil, errNo
			case 1:
				panic("oh")
			case 2:
				return nil, task.Again(time.Now())
			}
			return nil, nil
		}})
		ids := n.submit(repeat(40, func(i int) engine.Request { return engine.Request{Type: "pay", Payload: []byte{byte(i)}} })...)
		n.wait(ids...)
		for _, id := range ids {
			if runs := n.ledger.runs(id); runs != 1 {
				n.Errorf("task %v was run %d times", id, runs)
			}
			if _, err := n.store.Get(n.ctx, id); errors.Is(err, task.ErrNotFound) != (keep == 0) {
				n.Errorf("task %v, which is kept for %v: %v", id, keep, err)
			}
		}
		if s := n.Stats(); s.Stale != 0 {
			n.Errorf("%+v", s)
		}
		n.close()
	}
	n.open()
	n.expectEffects(80)
}

func cancelledFinish(n *node) {
	began, gate := make(chan task.ID), make(chan struct{})
	over := make(chan error, 1)
	n.start(types(10, nil, "pay", "effect"), map[string]handle{"effect": done, "pay": func(ctx context.Context, t *task.Task) ([]byte, error) {
		began <- t.ID
		<-gate
		err := n.finishTx(context.WithoutCancel(ctx), "late", nil)
		over <- err
		return nil, err
	}})
	id := n.submit(engine.Request{Type: "pay"})[0]
	receive(n, "the handler begins", began)
	if _, err := n.Cancel(n.ctx, task.Ref{ID: id}, ""); err != nil {
		n.Fatal(err)
	}
	close(gate)
	if err := receive(n, "the handler is done", over); !errors.Is(err, engine.ErrAttemptOver) {
		n.Errorf("got %v", err)
	}
	n.expect(id, task.Cancelled)
	n.expectEffects(0)
}

// runsAgainByTx runs tasks that count in their payload and checkpoint, each time in a transaction that
// has an effect. The first transaction of each run is rolled back.
func runsAgainByTx(n *node) {
	const runs = 3
	n.start(types(10, nil, "pay", "effect"), map[string]handle{"effect": done, "pay": func(ctx context.Context, t *task.Task) ([]byte, error) {
		i := int(t.Payload[0] - '0')
		if i > 0 && string(t.Checkpoint()) != string(t.Payload) {
			return nil, task.Permanent(fmt.Errorf("the payload is %q, and the checkpoint %q", t.Payload, t.Checkpoint()))
		}
		if i == runs {
			return nil, nil
		}
		next := []byte{t.Payload[0] + 1}
		for _, fails := range []error{errNo, nil} {
			err := n.store.Update(ctx, func(tx storage.Tx) error {
				if _, err := n.opened().SubmitTx(ctx, tx, engine.Request{Type: "effect"}); err != nil {
					return err
				}
				return errors.Join(engine.AgainTx(ctx, tx, nil, time.Now().Add(20*time.Millisecond), task.WithPayload(next), task.WithCheckpoint(next)), fails)
			})
			if !errors.Is(err, fails) {
				return nil, err
			}
		}
		return nil, errNo
	}})
	ids := n.submit(repeat(20, func(int) engine.Request { return engine.Request{Type: "pay", Payload: []byte("0")} })...)
	for range 2 {
		n.close()
		n.reopenStore()
		n.open()
	}
	for _, id := range ids {
		if t := n.expect(id, task.Done); t.Attempt != 1 || t.Payload[0] != '0'+runs {
			n.Errorf("attempt %d, payload %q", t.Attempt, t.Payload)
		}
	}
	n.expectEffects(runs * len(ids))
}
