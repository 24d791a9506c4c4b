// Shop is a service that takes orders, and announces each of them on a topic of Kafka. It speaks to its database alone:
// the announcement is a task, added in the transaction of the order.
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
create table if not exists shop.orders (id bigint generated always as identity primary key, customer text not null);`

const customers = 7

// errDeclined is why an order is not placed.
var errDeclined = errors.New("the card was declined")

func main() {
	database := flag.String("database", os.Getenv("DATABASE"), "where the orders are, and the tasks")
	orders := flag.Int("orders", 100, "how many orders there are; the card of every tenth is declined")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := sell(ctx, *database, *orders); err != nil {
		fmt.Fprintln(os.Stderr, "shop:", err)
		os.Exit(1)
	}
}

func sell(ctx context.Context, database string, orders int) error {
	c, err := pgx.Connect(ctx, database)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close(context.WithoutCancel(ctx)) }()
	if _, err := c.Exec(ctx, schema); err != nil {
		return err
	}
	placed, declined := 0, 0
	for i := range orders {
		err := pgx.BeginFunc(ctx, c, func(tx pgx.Tx) error { return order(ctx, tx, fmt.Sprint("customer-", i%customers), i%10 == 9) })
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

// order places an order. In the end the order and its announcement are both there, or neither. The announcements of a
// customer have the ordering key of the customer, so that they are sent in the order of the orders.
func order(ctx context.Context, tx pgx.Tx, customer string, decline bool) error {
	var id int64
	if err := tx.QueryRow(ctx, "insert into shop.orders (customer) values ($1) returning id", customer).Scan(&id); err != nil {
		return err
	}
	_, err := tx.Exec(ctx, "select taskengine.add('order.placed', jsonb_build_object('order', $1::bigint, 'customer', $2::text), ordering_key => $2::text)", id, customer)
	if err != nil {
		return err
	}
	if decline { // as late as can be: the task has been added
		return errDeclined
	}
	return nil
}
