package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/taskengine/taskengine/storage"
)

// errDone says that a transaction was used after its function had returned.
var errDone = errors.New("the transaction is over")

// Tx is a transaction of a [Store]. It implements [storage.Tx].
type Tx struct {
	verbs
	send    func(context.Context, *pgx.Batch) error
	since   time.Time // it began at this time or later
	foreign bool      // the caller begins and ends it: see [Store.Attach]
	begun   bool
	hooks   []func()
	err     error // the first error of a verb; the transaction can only be rolled back
	done    bool
}

var _ storage.Tx = (*Tx)(nil)

// OnCommit implements [storage.Tx].
func (x *Tx) OnCommit(fn func()) { x.hooks = append(x.hooks, fn) }

// usable returns an error if the transaction is over, has failed, or ctx has ended.
func (x *Tx) usable(ctx context.Context) error {
	if x.done {
		return fmt.Errorf("postgres: %w", errDone)
	}
	if x.err == nil && ctx.Err() != nil {
		x.err = fmt.Errorf("postgres: %w", ctx.Err())
	}
	return x.err
}

// Update implements [storage.Store]. Each verb of a transaction sees what other transactions have
// committed by then; rows that the transaction has got do not change until it ends.
func (s *Store) Update(ctx context.Context, fn func(storage.Tx) error) error {
	var own, verb error
	var hooks []func()
	err := s.transact(ctx, directly, func(x *Tx) error {
		own = fn(x)
		verb, hooks = x.err, x.hooks
		return errors.Join(own, verb)
	})
	switch {
	case own != nil:
		return own
	case verb != nil:
		return verb
	case err != nil:
		return s.failed("update", err)
	}
	for _, hook := range hooks {
		hook()
	}
	return nil
}

func (v *verbs) acquire(ctx context.Context) (*pgxpool.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return v.pool().Acquire(ctx)
}

// rollbackTimeout is how long a rollback may take.
const rollbackTimeout = 5 * time.Second

// transact calls fn within a transaction, and commits unless fn fails.
func (s *Store) transact(ctx context.Context, by way, fn func(x *Tx) error) error {
	x := &Tx{since: time.Now()}
	x.verbs = verbs{store: s, tx: x, way: by}
	c, err := x.acquire(ctx)
	if err != nil {
		return err
	}
	defer c.Release()
	x.send = func(ctx context.Context, b *pgx.Batch) error { return c.SendBatch(ctx, b).Close() }
	committed := false
	defer func() {
		x.done = true
		if x.begun && !committed { // fn failed or panicked
			late, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackTimeout)
			defer cancel()
			if _, err := c.Exec(late, "rollback"); err != nil {
				_ = c.Conn().Close(late)
			}
		}
	}()
	if err := fn(x); err != nil {
		return err
	}
	if !x.begun {
		return nil
	}
	within, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	tag, err := c.Exec(within, "commit")
	if err != nil {
		return err
	}
	committed = true
	if tag.String() != "COMMIT" { // a statement had failed, so it was rolled back
		return pgx.ErrTxCommitRollback
	}
	return nil
}

// do sends p, the first time with the begin of the transaction. It restores the settings of an
// attached transaction, which are the caller's.
func (x *Tx) do(ctx context.Context, p *pipe) error {
	switch {
	case x.foreign:
		b := after(p, keepSettings, x.store.sql.first.plans)
		b.Queue(restoreSettings)
		return x.send(ctx, b)
	case x.begun:
		return x.send(ctx, &p.batch)
	}
	x.begun = true
	return x.send(ctx, after(p, "begin isolation level read committed", x.settings()))
}
