// Shop is a service that takes orders. It knows nothing of the task engine but one
// function of the database: with each order it asks for an invoice, in the same
// transaction.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"

	"github.com/jackc/pgx/v5"
)

const schema = `
create schema if not exists shop;
create table if not exists shop.orders (id bigint generated always as identity primary key, cents bigint not null);`

// errDeclined is why an order is not placed.
var errDeclined = errors.New("the card was declined")

func main() {
	database := flag.String("database", "postgres://localhost/postgres", "where the orders are, and the tasks")
	orders := flag.Int("orders", 100, "how many customers there are; the card of every tenth is declined")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := sell(ctx, *database, *orders); err != nil {
		fmt.Fprintln(os.Stderr, "shop:", err)
		os.Exit(1)
	}
}

func sell(ctx context.Context, database string, customers int) error {
	c, err := pgx.Connect(ctx, database)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close(context.WithoutCancel(ctx)) }()
	if _, err := c.Exec(ctx, schema); err != nil {
		return err
	}
	placed, declined := 0, 0
	for i := range customers {
		err := pgx.BeginFunc(ctx, c, func(tx pgx.Tx) error { return order(ctx, tx, 100+i, i%10 == 9) })
		switch {
		case errors.Is(err, errDeclined):
			declined++
		case err != nil:
			return err
		default:
			placed++
		}
	}
	fmt.Printf("%d orders were placed and %d declined\n", placed, declined)
	return nil
}

// order places an order. Either both are there in the end, the order and the task that
// will write its invoice, or none.
func order(ctx context.Context, tx pgx.Tx, cents int, decline bool) error {
	var id int64
	if err := tx.QueryRow(ctx, "insert into shop.orders (cents) values ($1) returning id", cents).Scan(&id); err != nil {
		return err
	}
	_, err := tx.Exec(ctx, "select taskengine.add('invoice', jsonb_build_object('order', $1::bigint, 'cents', $2::bigint), key => $1::text)", id, cents)
	if err != nil {
		return err
	}
	if decline { // as late as can be: the task has been added
		return errDeclined
	}
	return nil
}
