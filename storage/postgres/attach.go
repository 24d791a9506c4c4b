package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
)

// Attach returns a transaction of the store that is tx, which the caller has begun and
// ends: what is done by its verbs is there if and only if tx commits. tx may be of any
// connection to the store's database whose role has the rights of the store's own. It may
// be a savepoint, too; then it has an Attach of its own.
//
// The caller calls [Tx.Committed] after tx has committed. A verb that fails leaves tx as
// any statement does that fails: it can only be rolled back. Insert needs the isolation
// level read committed, and fails at another; the other verbs fail at a higher one with
// the error 40001 where they would else answer that a row is stale. Rows that were changed
// are locked until tx ends, and whoever else wants to change them waits: engines, too, and
// with one of its tasks an engine may have others waiting. So tx should end soon.
//
// The connection must not use the modes exec and simple_protocol of pgx. The planner's
// settings that the caller has made are the same after each verb as before.
func (s *Store) Attach(tx pgx.Tx) *Tx {
	x := s.attached(func(ctx context.Context, b *pgx.Batch) error { return tx.SendBatch(ctx, b).Close() })
	x.err = teachForeign(tx.Conn())
	return x
}

// AttachSQL is [Store.Attach] to the transaction that is under way on a connection of
// database/sql, whose driver must be that of pgx. The caller has read the rows of all
// queries before it calls a verb.
func (s *Store) AttachSQL(c *sql.Conn) *Tx {
	return s.attached(func(ctx context.Context, b *pgx.Batch) error {
		return c.Raw(func(driver any) error {
			d, ok := driver.(*stdlib.Conn)
			if !ok {
				return fmt.Errorf("the driver of the connection is %T; open it by github.com/jackc/pgx/v5/stdlib", driver)
			}
			if err := teachForeign(d.Conn()); err != nil {
				return err
			}
			return d.Conn().SendBatch(ctx, b).Close()
		})
	})
}

// attached returns a transaction that others begin and end. Nobody knows when it began,
// so it takes no table for one that it can see without looking for it by name.
func (s *Store) attached(send func(context.Context, *pgx.Batch) error) *Tx {
	x := &Tx{send: send, foreign: true, since: time.Time{}}
	x.verbs = verbs{store: s, tx: x}
	return x
}

var (
	errNoTransaction = errors.New("there is no transaction under way on the connection: it has not begun, or is over")
	errMode          = errors.New("the connection is in the mode exec or simple_protocol of pgx, which does not know the types of columns; behind PgBouncer use default_query_exec_mode=cache_describe")
)

// teachForeign has somebody else's connection, on which a transaction is under way, take
// what the verbs send.
func teachForeign(c *pgx.Conn) error {
	if c.PgConn().TxStatus() == 'I' {
		return fmt.Errorf("postgres: %w", errNoTransaction)
	}
	switch c.Config().DefaultQueryExecMode {
	case pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol:
		return fmt.Errorf("postgres: %w", errMode)
	}
	return teach(context.Background(), c)
}

// Committed tells that the transaction has committed to which x is attached: what was
// asked for by [Tx.OnCommit] is called. It does nothing when a verb has failed, or when it
// was called before. If it is not called, as when the process dies before it can be, the
// nodes of a cluster find what was added within about a second.
func (x *Tx) Committed() {
	if !x.foreign || x.done {
		return
	}
	x.done = true
	if x.err != nil {
		return
	}
	for _, hook := range x.hooks {
		hook()
	}
}

// Beginner begins transactions: a *pgxpool.Pool, a *pgxpool.Conn or a *pgx.Conn.
type Beginner interface {
	BeginTx(ctx context.Context, o pgx.TxOptions) (pgx.Tx, error)
}

// Within begins a transaction, calls fn with it and with a transaction of the store that
// is attached to it, and commits, unless fn or a verb fails: then it rolls back and
// returns that error.
func (s *Store) Within(ctx context.Context, on Beginner, fn func(tx pgx.Tx, x *Tx) error) error {
	var x *Tx
	err := pgx.BeginTxFunc(ctx, on, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) error {
		x = s.Attach(tx)
		return x.outcome(fn(tx, x))
	})
	return x.end(err)
}

// WithinSQL is [Store.Within] for a database that was opened by the driver of pgx.
func (s *Store) WithinSQL(ctx context.Context, db *sql.DB, fn func(tx *sql.Tx, x *Tx) error) (err error) {
	c, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	tx, err := c.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelReadCommitted})
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // it is over, unless fn failed or panicked
	x := s.AttachSQL(c)
	if err := x.outcome(fn(tx, x)); err != nil {
		return x.end(err)
	}
	return x.end(tx.Commit())
}

// outcome returns why a transaction cannot commit: what its function said, or else what
// that did not say.
func (x *Tx) outcome(own error) error {
	if own != nil {
		return own
	}
	return x.err
}

// end ends an attached transaction, which has committed unless err says otherwise.
func (x *Tx) end(err error) error {
	switch {
	case x == nil: // it did not begin
	case err != nil:
		x.done = true
	default:
		x.Committed()
	}
	return err
}
