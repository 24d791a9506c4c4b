package sharded

import (
	"fmt"
	"strings"

	"github.com/taskengine/taskengine/engine/task"
	"github.com/taskengine/taskengine/storage"
)

// In returns a transaction of the store that is t, one of the place of this name that the
// caller has begun and ends, such as one attached to his own transaction of that database. It
// takes rows of the shards that the place holds; those of others fail with
// [storage.ErrElsewhere]. It implements [storage.ShardBound]. Queries see that place alone.
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

// Shards implements [storage.ShardBound]: rows can be of all.
func (s *Store) Shards() *task.Shards { return nil }
