package engine_test

import (
	"context"
	"fmt"
	"log"
	"strings"
	"time"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/storage/memory"
	"github.com/taskengine/taskengine/task"
)

// A task is submitted, handled, and read back with its result. A program in production
// opens storage/pebble or storage/bolt instead of a store in memory.
func Example() {
	ctx := context.Background()
	store := memory.New()
	defer store.Close()
	e, err := engine.Open(ctx, engine.Config{
		Store:    store,
		Policies: policy.Set{Slots: 10, Types: map[string]policy.Type{"upper": policy.DefaultType()}},
		Handlers: map[string]task.Handler{
			"upper": task.HandlerFunc(func(_ context.Context, t *task.Task) ([]byte, error) {
				return []byte(strings.ToUpper(string(t.Payload))), nil
			}),
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer e.Close(ctx)

	receipts, err := e.Submit(ctx, engine.Request{Type: "upper", Payload: []byte("hello")})
	if err != nil {
		log.Fatal(err)
	}
	if err := e.WaitTasks(ctx, receipts[0].ID); err != nil {
		log.Fatal(err)
	}
	t, err := e.Get(ctx, receipts[0].ID)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s: %s\n", t.State, t.Result)
	// Output: done: HELLO
}

// The error that a handler returns decides about the next step.
func Example_verdicts() {
	charge := func(ctx context.Context, t *task.Task) ([]byte, error) {
		switch err := ctx.Err(); {
		case err != nil:
			return nil, err // as the type's retry policy says
		case len(t.Payload) == 0:
			return nil, task.Permanent(fmt.Errorf("there is no payload")) // never again
		case t.Attempt == 1:
			return nil, task.RetryIn(time.Minute, fmt.Errorf("the bank is closed"))
		case t.Attempt == 2:
			return nil, task.WithClass("partner_down", fmt.Errorf("no answer")) // see policy.Retry.On
		}
		return nil, task.Snooze(time.Hour) // not yet; counts no attempt
	}
	for _, t := range []*task.Task{{}, {Payload: []byte("1"), Attempt: 1}, {Payload: []byte("1"), Attempt: 3}} {
		v := task.VerdictOf(charge(context.Background(), t))
		fmt.Println(v.Outcome, v.GiveUp, v.Delay, v.Error)
	}
	// Output:
	// errored true -1ns there is no payload
	// errored false 1m0s the bank is closed
	// snoozed false 1h0m0s
}

// Tasks that are submitted within a transaction exist if and only if it commits.
func ExampleEngine_SubmitTx() {
	ctx := context.Background()
	store := memory.New()
	defer store.Close()
	e, err := engine.Open(ctx, engine.Config{Store: store})
	if err != nil {
		log.Fatal(err)
	}
	defer e.Close(ctx)

	err = store.Update(ctx, func(tx storage.Tx) error {
		if _, err := e.SubmitTx(ctx, tx, engine.Request{Type: "mail"}); err != nil {
			return err
		}
		return fmt.Errorf("the order cannot be placed")
	})
	counts, _ := e.Count(ctx, storage.Filter{})
	fmt.Println(err, len(counts))
	// Output: the order cannot be placed 0
}

// A handler that finishes its task in the transaction in which it writes its data writes
// it once, however often it is called.
func ExampleFinishTx() {
	ctx := context.Background()
	store := memory.New()
	defer store.Close()
	var e *engine.Engine
	charge := func(ctx context.Context, t *task.Task) ([]byte, error) {
		err := store.Update(ctx, func(tx storage.Tx) error {
			if _, err := e.SubmitTx(ctx, tx, engine.Request{Type: "receipt"}); err != nil { // or any other data
				return err
			}
			return engine.FinishTx(ctx, tx, []byte("charged"))
		})
		if err != nil {
			return nil, err // nothing was written
		}
		return nil, fmt.Errorf("this comes too late to matter")
	}
	e, err := engine.Open(ctx, engine.Config{Store: store, Handlers: map[string]task.Handler{"charge": task.HandlerFunc(charge)}})
	if err != nil {
		log.Fatal(err)
	}
	defer e.Close(ctx)

	receipts, err := e.Submit(ctx, engine.Request{Type: "charge"})
	if err != nil {
		log.Fatal(err)
	}
	if err := e.WaitTasks(ctx, receipts[0].ID); err != nil {
		log.Fatal(err)
	}
	t, _ := e.Get(ctx, receipts[0].ID)
	fmt.Printf("%v, %s, in attempt %d\n", t.State, t.Result, t.Attempt)
	// Output: done, charged, in attempt 1
}
