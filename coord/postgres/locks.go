package postgres

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/taskengine/taskengine/coord/internal/reason"
	"github.com/taskengine/taskengine/internal/pglocks"
)

// Statements of the coordination wait for locks of others, such as that of a table which is being changed, for a part of
// the lease: lockShare times less. So a heartbeat is tried several times before the lease is over, and finds a connection
// in time whatever else waits.
const lockShare = 12

// identityPatience is how long a node that starts waits for a lock.
const identityPatience = 10 * time.Second

// holdersPatience is how long the look at the sessions may take that hold locks.
const holdersPatience = 500 * time.Millisecond

// lockPatience returns how long a statement waits for a lock, as the server has it.
func (c *Coord) lockPatience() string { return millis(c.lease / lockShare) }

func millis(d time.Duration) string { return fmt.Sprintf("%dms", max(1, d.Milliseconds())) }

// beside returns when a statement may use a connection beside the heartbeats, for which one is left. The caller calls done
// after it.
func (c *Coord) beside(ctx context.Context) (done func(), err error) {
	select {
	case c.others <- struct{}{}:
		return func() { <-c.others }, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("wait for a connection: %w", context.Cause(ctx))
	}
}

// within calls fn with a transaction. Its statements wait for locks for at most patience.
func (c *Coord) within(ctx context.Context, patience time.Duration, fn func(tx pgx.Tx) error) error {
	done, err := c.beside(ctx)
	if err != nil {
		return err
	}
	defer done()
	err = pgx.BeginTxFunc(ctx, c.pool, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "SELECT set_config('lock_timeout', $1::text, true)", millis(patience)); err != nil {
			return err
		}
		return fn(tx)
	})
	return c.explain(err)
}

// explain returns the error of a statement. If it has waited for a lock, the error says which sessions may hold that.
func (c *Coord) explain(err error) error {
	if !pglocks.IsTimeout(err) {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), min(holdersPatience, c.lease/lockShare))
	defer cancel()
	var tables pglocks.Tables
	for _, name := range Tables() {
		tables.All = append(tables.All, quote(c.schema)+"."+quote(name))
	}
	all, _ := pglocks.Holders(ctx, c.pool, tables) // without their names the error is true, too
	return &reason.Error{What: "rows or tables of the coordination are locked" + pglocks.Text(all), Cause: err}
}

// calling returns the statement that calls a function of the schema with the request $1, and waits for locks as $2 says.
// It has columns of text: the settings, which are made first, and the answer.
func (c *Coord) calling(function string) string {
	return strings.Replace(c.sql("SELECT set_config('lock_timeout', $2::text, true), {schema}.{function}($1::text::jsonb)::text"), "{function}", function, 1)
}
