package sharded

import (
	"context"
	"fmt"

	"github.com/taskengine/taskengine/storage"
)

// tx is a transaction that consists of transactions of several databases.
type tx struct {
	verbs
	hook func(fn func()) // see OnCommit
	err  error           // the first error of a verb; the transaction can only be rolled back
}

// OnCommit implements [storage.Tx].
func (x *tx) OnCommit(fn func()) { x.hook(fn) }

// Update implements [storage.Store]. It commits the transactions of the databases one after the other.
// If a commit fails, commits of other databases may or may not have been done.
func (s *Store) Update(ctx context.Context, fn func(storage.Tx) error) error {
	var hooks []func()
	x := &tx{hook: func(fn func()) { hooks = append(hooks, fn) }}
	x.verbs = verbs{store: s, tx: x, in: make([]storage.Tasks, len(s.databases))}
	err := s.within(ctx, x, 0, func() error {
		if err := fn(x); err != nil {
			return err
		}
		return x.err
	})
	if err != nil {
		return err
	}
	for _, hook := range hooks {
		hook()
	}
	return nil
}

// within calls fn within transactions of all databases from this one on, and returns its error as
// it is.
func (s *Store) within(ctx context.Context, x *tx, database int, fn func() error) error {
	if database == len(s.databases) {
		return fn()
	}
	var inner error
	err := s.databases[database].Store.Update(ctx, func(t storage.Tx) error {
		x.in[database] = t
		inner = s.within(ctx, x, database+1, fn)
		return inner
	})
	if err != nil && inner == nil {
		return fmt.Errorf("sharded: update: %w", s.failed(database, err))
	}
	return err
}

// usable returns an error if the transaction cannot go on.
func (x *tx) usable(ctx context.Context) error {
	if x.err == nil && ctx.Err() != nil {
		x.err = fmt.Errorf("sharded: %w", ctx.Err())
	}
	return x.err
}

// run makes a call within the transaction, where it cannot be repeated if a shard was not where it
// was expected.
func (x *tx) run(ctx context.Context, c *call) error {
	if err := x.usable(ctx); err != nil {
		return err
	}
	if c.n == 0 {
		return nil
	}
	known := x.store.routes.Load()
	if x.outside(known, c) != nil { // unless that is outdated
		fresh, err := x.store.look(ctx)
		if err != nil {
			return x.die(err)
		}
		known = fresh
	}
	if err := x.outside(known, c); err != nil {
		return x.die(err)
	}
	var f failure
	if again := x.store.try(ctx, known, c, nil, false, &f); len(again) > 0 {
		shards := c.shards(again)
		f.add(shards, fmt.Errorf("the shards %s have just been moved, so make the transaction again: %w", &shards, storage.ErrElsewhere))
		_, _ = x.store.look(ctx) // for the next transaction; this one has failed
	}
	if len(f.errs) > 0 {
		return x.die(f.err())
	}
	return nil
}

func (x *tx) die(err error) error {
	if x.err == nil {
		x.err = err
	}
	return err
}

// outside returns why the transaction cannot make a call: a shard of the call is nowhere, or in a
// database that is not part of the transaction.
func (x *tx) outside(known *routes, c *call) error {
	for i := range c.n {
		shard := c.shard(i)
		switch database := known.of(shard); {
		case database == nowhere:
			return known.why(c.shards([]int{i}))
		case x.in[database] == nil:
			return fmt.Errorf("shard %d is in %s, and the transaction is not: %w", shard, known.names[database], storage.ErrElsewhere)
		}
	}
	return nil
}
