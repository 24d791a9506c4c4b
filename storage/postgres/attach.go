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

// Attach returns a transaction of the store that is part of tx, which the caller has begun and
// ends: the changes of its verbs exist if and only if tx commits. tx may be on any connection to
// the store's database with a role that has the rights of the store's role. It may be a savepoint, for
// which Attach is called again.
//
// The caller calls [Tx.Committed] after tx has committed. After a verb has failed, tx can only be
// rolled back. Insert needs the isolation level read committed, and fails at any other. At a higher
// level, other verbs fail with the code 40001 where they would otherwise report a stale row.
// Changed rows are locked until tx ends. Other transactions that change them wait, in an engine
// with all tasks of a batch. So tx should end soon.
//
// The connection must not use the modes exec and simple_protocol of pgx. Each verb restores the
// planner's settings that the caller has made.
func (s *Store) Attach(tx pgx.Tx) *Tx {
	x := s.attached(func(ctx context.Context, b *pgx.Batch) error { return tx.SendBatch(ctx, b).Close() })
	x.err = checkForeign(tx.Conn())
	return x
}

// AttachSQL is [Store.Attach] to the transaction that is under way on a connection of
// database/sql by the driver of pgx. The caller has read the rows of all
// queries before it calls a verb.
func (s *Store) AttachSQL(c *sql.Conn) *Tx {
	return s.attached(func(ctx context.Context, b *pgx.Batch) error {
		return c.Raw(func(driver any) error {
			d, ok := driver.(*stdlib.Conn)
			if !ok {
				return fmt.Errorf("the driver of the connection is %T; open it by github.com/jackc/pgx/v5/stdlib", driver)
			}
			if err := checkForeign(d.Conn()); err != nil {
				return err
			}
			return d.Conn().SendBatch(ctx, b).Close()
		})
	})
}

// attached returns a transaction that the caller begins and ends. It is unknown when it began, so
// it names each partition before it uses it.
func (s *Store) attached(send func(context.Context, *pgx.Batch) error) *Tx {
	x := &Tx{send: send, foreign: true, since: time.Time{}}
	x.verbs = verbs{store: s, tx: x}
	return x
}

var (
	errNoTransaction = errors.New("there is no transaction under way on the connection: it has not begun, or is over")
	errMode          = errors.New("the connection is in the mode exec or simple_protocol of pgx, which does not know the types of columns; behind PgBouncer use default_query_exec_mode=cache_describe")
)

// checkForeign returns an error if the verbs cannot work with the caller's connection, and prepares
// it for them.
func checkForeign(c *pgx.Conn) error {
	if c.PgConn().TxStatus() == 'I' {
		return fmt.Errorf("postgres: %w", errNoTransaction)
	}
	switch c.Config().DefaultQueryExecMode {
	case pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol:
		return fmt.Errorf("postgres: %w", errMode)
	}
	return registerArrays(context.Background(), c)
}

// Committed says that the transaction to which x is attached has committed. It calls the functions
// registered by [Tx.OnCommit]. It does nothing if a verb has failed or if it was called before. If
// it is not called, for example because the process has died, the nodes of a cluster find the
// added tasks within about a second.
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

// Within begins a transaction on a connection of on, calls fn with it and with a transaction of the
// store that is attached to it, and commits. If fn or a verb fails, it rolls back and returns that
// error.
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

// outcome returns why a transaction cannot commit: the error of its function, or else the error of
// a verb that the function has ignored.
func (x *Tx) outcome(own error) error {
	if own != nil {
		return own
	}
	return x.err
}

// end ends an attached transaction, which has committed unless err says otherwise.
func (x *Tx) end(err error) error {
	switch {
	case x == nil: // the transaction did not begin
	case err != nil:
		x.done = true
	default:
		x.Committed()
	}
	return err
}
