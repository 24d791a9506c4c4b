// Billing is a service that writes invoices. It runs the tasks that shops add, and writes
// an invoice in the very transaction that finishes its task: once for each order, however
// often the service dies.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	coordination "github.com/taskengine/taskengine/coord/postgres"
	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/storage/postgres"
	"github.com/taskengine/taskengine/task"
)

// Nothing keeps a second invoice of an order out of the table.
const schema = `
create schema if not exists billing;
create table if not exists billing.invoices (number bigint generated always as identity primary key, for_order bigint not null, cents bigint not null);`

// drain is how long invoices may take that are being written when the service is stopped.
const drain = 10 * time.Second

func main() {
	database := flag.String("database", "postgres://localhost/postgres", "where the invoices are, and the tasks")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *database); err != nil {
		fmt.Fprintln(os.Stderr, "billing:", err)
		os.Exit(1)
	}
}

// run is a node of the engine until ctx ends.
func run(ctx context.Context, database string) error {
	pool, err := pgxpool.New(ctx, database) // for the invoices
	if err != nil {
		return err
	}
	defer pool.Close()
	if _, err := pool.Exec(ctx, schema); err != nil {
		return err
	}
	store, err := postgres.Open(ctx, database, postgres.Options{})
	if err != nil {
		return err
	}
	defer func() { _ = store.Close() }()
	coord, err := coordination.New(store.Pool(), coordination.Options{})
	if err != nil {
		return err
	}
	defer func() { _ = coord.Close() }()
	b := &billing{pool: pool, store: store}
	e, err := engine.Open(ctx, engine.Config{
		Store: store, Coordinator: coord.Coordinator(), Log: slog.Default(), Name: "billing",
		Handlers: map[string]task.Handler{"invoice": task.HandlerFunc(b.invoice)},
	})
	if err != nil {
		return err
	}
	fmt.Println("billing is ready")
	<-ctx.Done()
	within, cancel := context.WithTimeout(context.WithoutCancel(ctx), drain)
	defer cancel()
	return e.Close(within)
}

type billing struct {
	pool  *pgxpool.Pool
	store *postgres.Store
}

// invoice writes the invoice of an order and finishes the task, both or none.
func (b *billing) invoice(ctx context.Context, t *task.Task) ([]byte, error) {
	var o struct{ Order, Cents int64 }
	if err := json.Unmarshal(t.Payload, &o); err != nil {
		return nil, task.Permanent(err)
	}
	err := b.store.Within(ctx, b.pool, func(tx pgx.Tx, x *postgres.Tx) error {
		var number int64
		err := tx.QueryRow(ctx, "insert into billing.invoices (for_order, cents) values ($1, $2) returning number", o.Order, o.Cents).Scan(&number)
		if err != nil {
			return err
		}
		return engine.FinishTx(ctx, x, fmt.Appendf(nil, `{"invoice": %d}`, number))
	})
	return nil, err
}
