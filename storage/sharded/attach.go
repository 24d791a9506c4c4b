package sharded

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

// In returns a transaction of the store that is part of t, a transaction of the database of this name.
// The caller begins and ends t, which may be attached to its own transaction of that database. It
// accepts rows of the shards that the database holds; for rows of others it fails with
// [storage.ErrElsewhere]. It implements [storage.ShardBound]. Its queries read that database only.
func (s *Store) In(name string, t storage.Tx) (storage.Tx, error) {
	var names []string
	for i, p := range s.databases {
		if p.Name != name {
			names = append(names, p.Name)
			continue
		}
		return s.attach(i, t), nil
	}
	return nil, fmt.Errorf("sharded: there is no database %s among %s", name, strings.Join(names, ", "))
}

func (s *Store) attach(database int, t storage.Tx) *attached {
	x := &attached{tx: tx{hook: t.OnCommit}, database: database}
	x.verbs = verbs{store: s, tx: &x.tx, in: make([]storage.Tasks, len(s.databases))}
	x.in[database] = t
	return x
}

var _ storage.PartUpdater = (*Store)(nil)

var errMoved = errors.New("the shard has just been moved, so make the transaction again")

// UpdateIn implements [storage.PartUpdater].
func (s *Store) UpdateIn(ctx context.Context, database int, fn func(storage.Tx) error) error {
	if database == len(s.databases) {
		ctx, cancel := context.WithTimeout(ctx, lookPatience)
		defer cancel()
		known, err := s.look(ctx)
		if err == nil {
			err = known.why(task.AllShards())
		}
		if err == nil {
			err = errMoved
		}
		return unavailable(fmt.Errorf("sharded: update one database: %w", err))
	}
	var inner error
	err := s.databases[database].Store.Update(ctx, func(t storage.Tx) error {
		x := s.attach(database, t)
		if inner = fn(x); inner == nil {
			inner = x.err
		}
		return inner
	})
	if err != nil && inner == nil {
		return fmt.Errorf("sharded: update one database: %w", s.failed(database, err))
	}
	return err
}

// attached is a transaction in one database.
type attached struct {
	tx
	database int
}

var _ storage.ShardBound = (*attached)(nil)

// Shards implements [storage.ShardBound].
func (x *attached) Shards() *task.Shards {
	here := x.store.routes.Load().homes[x.database].Owned
	return &here
}

// Shards implements [storage.ShardBound]: new tasks may be of any shard.
func (s *Store) Shards() *task.Shards { return nil }
