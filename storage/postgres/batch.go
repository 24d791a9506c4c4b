package postgres

import (
	"context"
	"errors"
	"slices"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/taskengine/taskengine/engine/task"
	"github.com/taskengine/taskengine/storage"
)

// Commit implements [storage.Store]. A commit runs while its caller waits for it, and beside others.
func (s *Store) Commit(ctx context.Context, b *storage.Batch) storage.Commit {
	return storage.Later(func() (storage.Outcome, error) {
		lost := storage.NoteFirst(ctx, s, b)
		out, err := s.commit(ctx, b)
		out.Lost = lost
		return out, err
	})
}

// commit does a batch without its notes. A batch of what tasks usually go through is one round trip:
// they are added, grabbed and completed.
func (s *Store) commit(ctx context.Context, b *storage.Batch) (out storage.Outcome, err error) {
	w := classify(b.Swap)
	w.remove = b.Remove
	if !oneTrip(b, w) {
		var left []string
		err = s.atomically(ctx, "do a batch", func(v *verbs) (err error) {
			x := someKeys{verbs: v}
			out, err = storage.Do(ctx, &x, &storage.Batch{Insert: b.Insert, Swap: b.Swap, Remove: b.Remove, Follow: b.Follow, Keys: b.Keys})
			left = x.left
			return err
		})
		if err == nil {
			s.promoteLeft(ctx, b, &out, left)
		}
		return out, err
	}
	careful := s.careful()
	err = s.again(ctx, "do a batch", func() error {
		out, err = s.doAtOnce(ctx, b, w, careful)
		if isTaken(err) {
			careful = true
			s.wary.Store(waryFor)
			out, err = s.doAtOnce(ctx, b, w, careful)
		}
		return err
	})
	if err == nil {
		s.promoteLeft(ctx, b, &out, leftBy(b, w))
	}
	return out, err
}

// waryFor is for how many batches inserts are careful after one found an id taken: repeated ids
// often come in numbers.
const waryFor = 1000

// careful reports whether the inserts of a batch should expect ids that are taken.
func (s *Store) careful() bool {
	return s.wary.Load() > 0 && s.wary.Add(-1) >= 0
}

// isTaken reports whether an insert failed because an id is taken.
func isTaken(err error) bool {
	var e *pgconn.PgError
	return errors.As(err, &e) && e.Code == "23505" && e.ConstraintName == "task_pkey"
}

// oneTrip reports whether a batch can be done without reading rows first.
func oneTrip(b *storage.Batch, w *swaps) bool {
	if len(w.others) > 0 || len(b.Follow) > 0 || len(runs(b.Insert, claims)) > 1 {
		return false
	}
	fresh := make(map[task.ID]bool, len(b.Insert))
	for _, t := range b.Insert {
		if finished(t.State) || isHead(t) {
			return false
		}
		fresh[t.ID] = true
	}
	for i, c := range b.Swap {
		if fresh[c.ID] || b.Removes(i) && c.To != task.Done {
			return false
		}
	}
	return true
}

// doAtOnce does a batch in one round trip.
func (s *Store) doAtOnce(ctx context.Context, b *storage.Batch, w *swaps, careful bool) (out storage.Outcome, err error) {
	var p pipe
	w.rows = make([]*task.Task, len(b.Swap))
	var in *insertion
	if len(b.Insert) > 0 {
		in = s.insertion(&p, b.Insert, careful)
	}
	if err := s.queue(ctx, &p, w); err != nil {
		return out, err
	}
	keys, _ := keysOf(b, w)
	s.promote(&p, keys, &out.Heads)
	if err := s.do(ctx, &p); err != nil {
		return out, err
	}
	if in != nil {
		out.Inserted = in.outcomes()
	}
	out.Swapped = w.rows
	return out, nil
}

// keysOf returns the ordering keys that are known to have rows in a batch before it is done: those that the
// transaction of the batch promotes, and those that follow it. A grab leaves no key without a head.
func keysOf(b *storage.Batch, w *swaps) (now, later []string) {
	keys := slices.Clone(b.Keys)
	for _, t := range b.Insert {
		if t.OrderingKey != "" {
			keys = append(keys, t.OrderingKey)
		}
	}
	for _, i := range w.ends {
		if key := b.Swap[i].OrderingKey; key != "" {
			keys = append(keys, key)
		}
	}
	keys = distinct(keys)
	n := min(len(keys), keysAtOnce)
	return keys[:n], keys[n:]
}

// leftBy returns the ordering keys that a batch that was done in one round trip has not promoted.
func leftBy(b *storage.Batch, w *swaps) []string {
	now, left := keysOf(b, w)
	for _, t := range w.rows {
		if t == nil || t.OrderingKey == "" || t.Turn == task.Head && !(t.Inherits && t.State == task.Submitted) {
			continue
		}
		if _, done := slices.BinarySearch(now, t.OrderingKey); !done {
			left = append(left, t.OrderingKey)
		}
	}
	return left
}

// someKeys are the verbs of a transaction that does a batch. It promotes at most keysAtOnce keys.
type someKeys struct {
	*verbs
	left []string // the others
}

// Promote implements [storage.Tasks].
func (x *someKeys) Promote(ctx context.Context, keys ...string) ([]task.Hint, error) {
	n := min(len(keys), keysAtOnce)
	x.left = append(x.left, keys[n:]...)
	return x.verbs.Promote(ctx, keys[:n]...)
}

// promoteLeft promotes keys of a batch that is durable, in further transactions. If that fails, the keys
// stay without a head until [storage.Tasks.Headless] finds them.
func (s *Store) promoteLeft(ctx context.Context, b *storage.Batch, out *storage.Outcome, left []string) {
	if len(left) > 0 {
		heads, err := s.Promote(ctx, left...)
		out.Heads = append(out.Heads, heads...)
		if err != nil {
			s.log.Warn("the next tasks of some ordering keys start later", "error", err)
		}
	}
	storage.MarkHeads(b, out)
}
