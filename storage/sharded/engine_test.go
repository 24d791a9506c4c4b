package sharded_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/storage/postgres"
	"github.com/taskengine/taskengine/storage/postgres/placement"
	"github.com/taskengine/taskengine/storage/sharded"
	"github.com/taskengine/taskengine/task"
)

// within calls fn with a transaction of a part's database and its form for the engine.
func within(ctx context.Context, s *sharded.Store, p placement.Database, fn func(tx pgx.Tx, x storage.Tx) error) error {
	return p.Within(ctx, p.Pool(), func(tx pgx.Tx, own *postgres.Tx) error {
		x, err := s.In(p.Name, own)
		if err != nil {
			return err
		}
		return fn(tx, x)
	})
}

func TestTransactionsOfOneOfTheDatabasesAddAndFinishTasks(t *testing.T) {
	a, b := database(t, "a"), database(t, "b")
	if _, err := placement.Divide(t.Context(), a, b); err != nil {
		t.Fatal(err)
	}
	s, err := sharded.Open(t.Context(), []sharded.Database{{Name: "a", Store: a.Store}, {Name: "b", Store: b.Store}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := b.Pool().Exec(t.Context(), "create table payments (id text)"); err != nil {
		t.Fatal(err)
	}
	pay := func(ctx context.Context, job *task.Task) ([]byte, error) {
		elsewhere := within(ctx, s, a, func(_ pgx.Tx, x storage.Tx) error { return engine.FinishTx(ctx, x, nil) })
		if !errors.Is(elsewhere, storage.ErrElsewhere) {
			return nil, task.Permanent(fmt.Errorf("to finish it in the other database: %w", elsewhere))
		}
		return nil, within(ctx, s, b, func(tx pgx.Tx, x storage.Tx) error {
			if _, err := tx.Exec(ctx, "insert into payments values ($1)", job.ID.String()); err != nil {
				return err
			}
			return engine.FinishTx(ctx, x, []byte("paid"))
		})
	}
	e, err := engine.Open(t.Context(), engine.Config{
		Store: s, Policies: policy.Set{Types: map[string]policy.Type{"pay": policy.DefaultType()}},
		Handlers: map[string]task.Handler{"pay": task.HandlerFunc(pay)},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
		defer cancel()
		if err := e.Close(ctx); err != nil {
			t.Error(err)
		}
	}()
	errNo := errors.New("no")
	held, err := b.Holdings(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	order := ""
	for n := 0; order == "" || !held.Owned.Has(task.ShardOf(order)); n++ {
		order = fmt.Sprint("order ", n)
	}
	var receipts []engine.Receipt
	add := func(outcome error) error {
		return within(t.Context(), s, b, func(_ pgx.Tx, x storage.Tx) (err error) {
			receipts, err = e.SubmitTx(t.Context(), x, engine.Request{Type: "pay"}, engine.Request{Type: "pay"}, engine.Request{Type: "pay", Key: "k", OrderingKey: order})
			return errors.Join(err, outcome)
		})
	}
	if err := add(errNo); !errors.Is(err, errNo) {
		t.Fatal(err)
	}
	for _, r := range receipts {
		if _, err := e.Get(t.Context(), r.ID); !errors.Is(err, task.ErrNotFound) {
			t.Errorf("after a rollback: %v", err)
		}
	}
	if err := add(nil); err != nil {
		t.Fatal(err)
	}
	last := receipts[2]
	if err := add(nil); err != nil || receipts[2].ID != last.ID || receipts[2].Created {
		t.Errorf("a key within an ordering key again: %+v, %v", receipts[2], err)
	}
	for _, r := range receipts {
		if err := e.WaitTasks(t.Context(), r.ID); err != nil {
			t.Fatal(err)
		}
		got, err := b.Get(t.Context(), r.ID)
		if err != nil || got.State != task.Done || string(got.Result) != "paid" || got.Attempt != 1 {
			t.Errorf("it is %+v, %v", got, err)
		}
		var paid int
		if err := b.Pool().QueryRow(t.Context(), "select count(*) from payments where id = $1", r.ID.String()).Scan(&paid); err != nil || paid != 1 {
			t.Errorf("%d payments, %v", paid, err)
		}
	}
}
