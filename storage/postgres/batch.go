package postgres

import (
	"context"
	"errors"

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
		err = s.atomically(ctx, "do a batch", func(v *verbs) (err error) {
			out, err = storage.Do(ctx, v, &storage.Batch{Insert: b.Insert, Swap: b.Swap, Remove: b.Remove, Follow: b.Follow})
			return err
		})
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
		if finished(t.State) {
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
	if err := s.do(ctx, &p); err != nil {
		return out, err
	}
	if in != nil {
		out.Inserted = in.outcomes()
	}
	out.Swapped = w.rows
	return out, nil
}
