package sharded

import (
	"context"
	"fmt"
	"sync"

	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

// Commit implements [storage.Store]. Each database does its part wholly or not at all. After an error,
// which of them have is unknown.
func (s *Store) Commit(ctx context.Context, b *storage.Batch) storage.Commit {
	return storage.Later(func() (storage.Outcome, error) {
		lost := storage.NoteFirst(ctx, s, b)
		out, err := s.do(ctx, b)
		out.Lost = lost
		return out, err
	})
}

func (s *Store) do(ctx context.Context, b *storage.Batch) (storage.Outcome, error) {
	w := &work{batch: b}
	c := &call{n: len(b.Insert) + len(b.Swap), shard: w.shard, do: func(ctx context.Context, database int, some []int) ([]int, error) {
		if some == nil {
			return w.doAll(ctx, database, s.databases[database].Store)
		}
		return w.doSome(ctx, database, s.databases[database].Store, some)
	}}
	f := s.route(ctx, c)
	if f.shards.IsEmpty() && len(b.Keys) > 0 {
		heads, err := s.Promote(ctx, b.Keys...)
		w.out.Heads = append(w.out.Heads, heads...)
		return w.out, err
	}
	if f.shards.IsEmpty() {
		return w.out, nil
	}
	return storage.Outcome{}, fmt.Errorf("sharded: do a batch: %w", f.err())
}

// work is a batch that is done in parts. Its things are the rows to insert, then the changes.
type work struct {
	batch *storage.Batch
	mu    sync.Mutex
	out   storage.Outcome // guarded by mu
}

func (w *work) shard(i int) uint16 { return shardIn(w.batch, i) }

// doAll does the whole batch in one database.
func (w *work) doAll(ctx context.Context, database int, on storage.Store) (unsure []int, err error) {
	out, err := on.Commit(ctx, &storage.Batch{Insert: w.batch.Insert, Terms: w.batch.Terms, Swap: w.batch.Swap, Remove: w.batch.Remove, Follow: w.batch.Follow, Documents: w.batch.Documents}).Wait()
	if err != nil {
		return nil, err
	}
	number(database, w.batch.Insert, out.Inserted)
	outwardAll(database, out.Swapped)
	numberFollowing(database, w.batch, &out)
	outwardHints(database, out.Heads)
	for i, t := range out.Swapped {
		if t == nil && out.ConflictOf(i) == nil {
			unsure = append(unsure, len(w.batch.Insert)+i)
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.out = out
	return unsure, nil
}

// doSome does some things of the batch in one database.
func (w *work) doSome(ctx context.Context, database int, on storage.Store, some []int) (unsure []int, err error) {
	inserts, part := len(w.batch.Insert), storage.Batch{}
	for _, i := range some {
		if i < inserts {
			part.Insert = append(part.Insert, w.batch.Insert[i])
			if w.batch.Terms != nil {
				part.Terms = append(part.Terms, w.batch.Terms[i])
			}
			continue
		}
		part.Swap = append(part.Swap, w.batch.Swap[i-inserts])
		part.Remove = append(part.Remove, w.batch.Removes(i-inserts))
		part.Follow = append(part.Follow, w.batch.Follows(i-inserts))
		part.Documents = append(part.Documents, w.batch.DocumentsOf(i-inserts))
	}
	if len(w.batch.Follow) == 0 {
		part.Follow = nil
	}
	if len(w.batch.Documents) == 0 {
		part.Documents = nil
	}
	out, err := on.Commit(ctx, &part).Wait()
	if err != nil {
		return nil, err
	}
	number(database, part.Insert, out.Inserted)
	outwardAll(database, out.Swapped)
	numberFollowing(database, &part, &out)
	outwardHints(database, out.Heads)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.spread()
	w.out.Heads, w.out.Carriers = append(w.out.Heads, out.Heads...), append(w.out.Carriers, out.Carriers...)
	for k, i := range some {
		if i < inserts {
			w.out.Inserted[i] = out.Inserted[k]
			continue
		}
		t := out.Swapped[k-len(part.Insert)]
		if followed := out.FollowedBy(k - len(part.Insert)); followed != nil {
			w.out.Followed[i-inserts] = followed
		}
		if conflict := out.ConflictOf(k - len(part.Insert)); conflict != nil {
			w.out.Conflicts[i-inserts] = conflict
			continue
		}
		if w.out.Swapped[i-inserts] = t; t == nil {
			unsure = append(unsure, i)
		}
	}
	return unsure, nil
}

// spread makes room for the outcomes of parts. It is called with mu held.
func (w *work) spread() {
	if w.out.Inserted == nil {
		w.out.Inserted = make([]storage.Inserted, len(w.batch.Insert))
	}
	if w.out.Swapped == nil {
		w.out.Swapped = make([]*task.Task, len(w.batch.Swap))
	}
	if w.out.Followed == nil && len(w.batch.Follow) > 0 {
		w.out.Followed = make([][]storage.Inserted, len(w.batch.Swap))
	}
	if w.out.Conflicts == nil && len(w.batch.Documents) > 0 {
		w.out.Conflicts = make([]*task.DocumentConflict, len(w.batch.Swap))
	}
}
