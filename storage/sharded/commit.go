package sharded

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

// Databases implements [storage.Divided].
func (s *Store) Databases() int { return len(s.databases) }

// DatabaseOf implements [storage.Divided].
func (s *Store) DatabaseOf(shard uint16) int {
	if database := s.routes.Load().of(shard); database != nowhere {
		return database
	}
	return len(s.databases)
}

// Without implements [storage.Divided].
func (s *Store) Without(databases ...int) storage.Tasks {
	v := &verbs{store: s, in: slices.Clone(s.in)}
	for _, database := range databases {
		if database < len(v.in) {
			v.in[database] = nil
		}
	}
	return v
}

// CommitIn implements [storage.Divided].
func (s *Store) CommitIn(ctx context.Context, database int, b *storage.Batch) storage.Commit {
	return storage.Later(func() (out storage.Outcome, err error) {
		if database == len(s.databases) {
			out, err = s.leaveOut(ctx, b)
		} else {
			out, err = s.commitIn(ctx, database, b)
			err = s.failed(database, err)
		}
		if err != nil {
			return storage.Outcome{}, fmt.Errorf("sharded: commit a batch: %w", err)
		}
		return out, nil
	})
}

// leaveOut leaves out all rows of a batch with shards that no database held. It fails if none does now.
func (s *Store) leaveOut(ctx context.Context, b *storage.Batch) (storage.Outcome, error) {
	ctx, cancel := context.WithTimeout(ctx, lookPatience)
	defer cancel()
	known, err := s.look(ctx)
	if err != nil {
		return storage.Outcome{}, unavailable(err)
	}
	shards, n := task.AllShards(), len(b.Insert)+len(b.Swap)
	if n > 0 {
		shards = shardsIn(b)
	}
	missing := known.missing(shards)
	if n == 0 && !missing.IsEmpty() || n > 0 && missing == shards {
		return storage.Outcome{}, unavailable(known.why(missing))
	}
	return leftOut(b), nil
}

// unavailable returns an error for a batch of which nothing was done, because the databases of its rows
// are not known.
func unavailable(err error) error {
	if !errors.Is(err, storage.ErrUnavailable) {
		err = fmt.Errorf("%w: %w", storage.ErrUnavailable, err)
	}
	return storage.Undone(err)
}

// leftOut returns the outcome of a batch of which nothing was done.
func leftOut(b *storage.Batch) storage.Outcome {
	out := storage.Outcome{Inserted: make([]storage.Inserted, len(b.Insert)), Swapped: make([]*task.Task, len(b.Swap))}
	for i := range len(b.Insert) + len(b.Swap) {
		out.Elsewhere = append(out.Elsewhere, i)
	}
	return out
}

// commitIn commits the rows of a batch that one database holds.
func (s *Store) commitIn(ctx context.Context, database int, b *storage.Batch) (storage.Outcome, error) {
	known := s.routes.Load()
	out, err := s.databases[database].Store.Commit(ctx, b).Wait()
	for round := 1; errors.Is(err, storage.ErrElsewhere); round++ { // nothing was done
		if round == rounds {
			err = unavailable(fmt.Errorf("shards are moved over and over: %w", err))
			break
		}
		out, err = s.commitHeld(ctx, database, b)
		if err == nil {
			return out, nil
		}
	}
	if err != nil {
		return storage.Outcome{}, err
	}
	number(database, b.Insert, out.Inserted)
	outwardAll(database, out.Swapped)
	numberFollowing(database, b, &out)
	outwardHints(database, out.Heads)
	if !slices.Contains(out.Swapped, nil) {
		return out, nil
	}
	held, err := s.heldSince(ctx, known, database)
	if err != nil { // the outcome is known, so the batch has not failed
		s.log.Warn("a database does not say which shards it holds; changes that it has not found are tried again", "database", s.databases[database].Name, "error", err)
	}
	for i, t := range out.Swapped {
		if t == nil && out.ConflictOf(i) == nil && !held.Has(b.Swap[i].ID.Shard()) {
			out.Elsewhere = append(out.Elsewhere, len(b.Insert)+i)
		}
	}
	if len(out.Elsewhere) > 0 {
		s.lookSoon(ctx)
	}
	return out, nil
}

// commitHeld is commitIn for a batch of which the database has refused some shards. It wraps
// [storage.ErrElsewhere] if the database refuses others now.
func (s *Store) commitHeld(ctx context.Context, database int, b *storage.Batch) (storage.Outcome, error) {
	defer s.lookSoon(ctx)
	home, err := s.databases[database].Store.Holdings(ctx)
	if err != nil {
		return storage.Outcome{}, storage.Undone(err)
	}
	out, held := leftOut(b), &storage.Batch{Keys: b.Keys, Wait: b.Wait}
	out.Elsewhere = nil
	for _, n := range b.Notes {
		if home.Owned.Has(n.ID.Shard()) {
			held.Notes = append(held.Notes, n)
		}
	}
	var at []int // of the rows of held in b
	for i := range len(b.Insert) + len(b.Swap) {
		switch k := i - len(b.Insert); {
		case !home.Owned.Has(shardIn(b, i)):
			out.Elsewhere = append(out.Elsewhere, i)
			continue
		case k < 0:
			held.Insert = append(held.Insert, b.Insert[i])
			if b.Terms != nil {
				held.Terms = append(held.Terms, b.Terms[i])
			}
		default:
			held.Swap, held.Remove = append(held.Swap, b.Swap[k]), append(held.Remove, b.Removes(k))
			if len(b.Follow) > 0 {
				held.Follow = append(held.Follow, b.Follows(k))
			}
			if len(b.Documents) > 0 {
				held.Documents = append(held.Documents, b.DocumentsOf(k))
			}
		}
		at = append(at, i)
	}
	if len(at) == 0 {
		return out, nil
	}
	done, err := s.databases[database].Store.Commit(ctx, held).Wait()
	if err != nil {
		return storage.Outcome{}, blockedAmong(err, at)
	}
	number(database, held.Insert, done.Inserted)
	outwardAll(database, done.Swapped)
	numberFollowing(database, held, &done)
	if done.Followed != nil {
		out.Followed = make([][]storage.Inserted, len(b.Swap))
	}
	if done.Conflicts != nil {
		out.Conflicts = make([]*task.DocumentConflict, len(b.Swap))
	}
	for k, i := range at {
		if k < len(held.Insert) {
			out.Inserted[i] = done.Inserted[k]
			continue
		}
		t := done.Swapped[k-len(held.Insert)]
		if followed := done.FollowedBy(k - len(held.Insert)); followed != nil {
			out.Followed[i-len(b.Insert)] = followed
		}
		if conflict := done.ConflictOf(k - len(held.Insert)); conflict != nil {
			out.Conflicts[i-len(b.Insert)] = conflict
			continue
		}
		if out.Swapped[i-len(b.Insert)] = t; t == nil { // its shard may have left: another try finds out
			out.Elsewhere = append(out.Elsewhere, i)
		}
	}
	slices.Sort(out.Elsewhere)
	outwardHints(database, done.Heads)
	out.Lost, out.Heads, out.Carriers = done.Lost, done.Heads, done.Carriers
	return out, nil
}

// blockedAmong returns an error about rows as one about the databases in at that they have.
func blockedAmong(err error, at []int) error {
	var blocked *storage.Blocked
	if !errors.As(err, &blocked) {
		return err
	}
	rows := make([]int, len(blocked.Rows))
	for i, row := range blocked.Rows {
		rows[i] = at[row]
	}
	return &storage.Blocked{Rows: rows, Err: err}
}

// lookPatience is how long a commit waits for other databases to say which shards they hold.
const lookPatience = 2 * time.Second

// lookSoon finds out where the shards are now. If it cannot, the next call that needs to know does.
func (s *Store) lookSoon(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, lookPatience)
	defer cancel()
	if _, err := s.look(ctx); err != nil {
		s.log.Debug("cannot find out which databases hold the shards", "error", err)
	}
}

// shardsIn returns the shards of the rows of a batch.
func shardsIn(b *storage.Batch) (shards task.Shards) {
	for i := range len(b.Insert) + len(b.Swap) {
		shards.Add(shardIn(b, i))
	}
	return shards
}

// shardIn returns the shard of a row of a batch: first of Insert, then of Swap.
func shardIn(b *storage.Batch, i int) uint16 {
	if i < len(b.Insert) {
		return b.Insert[i].ID.Shard()
	}
	return b.Swap[i-len(b.Insert)].ID.Shard()
}
