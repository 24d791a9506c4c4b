package sharded

import (
	"fmt"
	"strings"

	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

// In returns a transaction of the store that is part of t, a transaction of the place of this name.
// The caller begins and ends t, which may be attached to its own transaction of that database. It
// accepts rows of the shards that the place holds; for rows of others it fails with
// [storage.ErrElsewhere]. It implements [storage.ShardBound]. Its queries read that place only.
func (s *Store) In(name string, t storage.Tx) (storage.Tx, error) {
	var names []string
	for i, p := range s.places {
		if p.Name != name {
			names = append(names, p.Name)
			continue
		}
		x := &attached{tx: tx{hook: t.OnCommit}, place: i}
		x.verbs = verbs{store: s, tx: &x.tx, in: make([]storage.Tasks, len(s.places))}
		x.in[i] = t
		return x, nil
	}
	return nil, fmt.Errorf("sharded: there is no database %s among %s", name, strings.Join(names, ", "))
}

// attached is a transaction in one place.
type attached struct {
	tx
	place int
}

var _ storage.ShardBound = (*attached)(nil)

// Shards implements [storage.ShardBound].
func (x *attached) Shards() *task.Shards {
	here := x.store.routes.Load().homes[x.place].Owned
	return &here
}

// Shards implements [storage.ShardBound]: new tasks may be of any shard.
func (s *Store) Shards() *task.Shards { return nil }
