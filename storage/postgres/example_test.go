package postgres_test

import (
	"context"
	"log"

	"github.com/jackc/pgx/v5"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/storage/postgres"
	"github.com/taskengine/taskengine/task"
)

// An order and the task that ships it are added together, or not at all.
func ExampleStore_Attach() {
	var (
		ctx   = context.Background()
		store *postgres.Store // that of the engine
		e     *engine.Engine
		c     *pgx.Conn // the application's
	)
	tx, err := c.Begin(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = tx.Rollback(ctx) }() // if it was not committed
	if _, err := tx.Exec(ctx, "insert into orders (id) values (17)"); err != nil {
		log.Fatal(err)
	}
	x := store.Attach(tx)
	if _, err := e.SubmitTx(ctx, x, engine.Request{Type: "ship", Payload: []byte("17")}); err != nil {
		log.Fatal(err)
	}
	if err := tx.Commit(ctx); err != nil {
		log.Fatal(err)
	}
	x.Committed() // the task starts
}

// A handler writes its data in the transaction that finishes its task: exactly once.
func ExampleStore_Within() {
	var store *postgres.Store // that of the engine
	_ = task.HandlerFunc(func(ctx context.Context, t *task.Task) ([]byte, error) {
		return nil, store.Within(ctx, store.Pool(), func(tx pgx.Tx, x *postgres.Tx) error {
			if _, err := tx.Exec(ctx, "insert into shipments (for_order) values ($1)", string(t.Payload)); err != nil {
				return err
			}
			return engine.FinishTx(ctx, x, nil)
		})
	})
}
