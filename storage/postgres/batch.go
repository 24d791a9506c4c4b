package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/taskengine/taskengine/internal/pglocks"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

// Commit implements [storage.Store]. A commit runs while its caller waits for it, and beside others.
func (s *Store) Commit(ctx context.Context, b *storage.Batch) storage.Commit {
	return storage.Later(func() (storage.Outcome, error) {
		v := &verbs{store: s, way: ways[b.Wait]}
		if err := s.locks.refuse(b); err != nil {
			return storage.Outcome{}, fmt.Errorf("postgres: do a batch: %w", err)
		}
		if b.Wait == storage.WaitLittle && s.locks.isWary() {
			if err := s.examine(ctx, b); err != nil {
				return storage.Outcome{}, fmt.Errorf("postgres: do a batch: %w", err)
			}
		}
		lost := storage.NoteFirst(ctx, &verbs{store: s, way: least}, b)
		if b.Wait == storage.WaitLong && s.locks.isWaiting(b) {
			v.way = again
		}
		out, err := v.commit(ctx, b, false)
		if s.isSpared(ctx, b.Swap, err) {
			out, err = v.commit(ctx, b, false)
		}
		if b.Wait == storage.WaitLittle && pglocks.IsTimeout(err) {
			if _, locked := s.holders(ctx); locked { // further tries would wait, too
				v.way = whole
				out, err = v.commit(ctx, b, false)
			} else if blocked := s.examine(ctx, b); blocked != nil {
				return storage.Outcome{}, fmt.Errorf("postgres: do a batch: %w", blocked)
			}
		}
		err = s.learn(ctx, b, err)
		out.Lost = lost
		return out, err
	})
}

// commit does a batch without its notes. A batch of the usual changes is one round trip: tasks
// are added and grabbed, attempts end, and rows follow their ends, as documents do. If resolves is set, rows are read first: its
// [storage.Terms] are needed, because keys of its rows are taken; a task that ends is followed; or a document has another version, see documents.go.
func (v *verbs) commit(ctx context.Context, b *storage.Batch, resolves bool) (out storage.Outcome, err error) {
	s, w := v.store, classify(b.Swap)
	w.remove = b.Remove
	if !oneTrip(b, w) || resolves || s.mayResolve(b) {
		var left []string
		err = v.atomically(ctx, "do a batch", func(v *verbs) (err error) {
			x := someKeys{verbs: v}
			free, _ := s.locks.free(b)
			out, err = storage.Do(ctx, &x, &storage.Batch{Insert: b.Insert, Terms: b.Terms, Swap: b.Swap, Remove: b.Remove, Follow: b.Follow, Documents: b.Documents, Keys: free})
			left = x.left
			return err
		})
		if err == nil {
			s.noteResolved(b, &out)
			s.promoteLeft(ctx, b, &out, left)
		}
		return out, err
	}
	careful := s.careful()
	err = v.again(ctx, "do a batch", func() error {
		out, err = v.doAtOnce(ctx, b, w, careful)
		if isTaken(err) {
			careful = true
			s.wary.Store(waryFor)
			out, err = v.doAtOnce(ctx, b, w, careful)
		}
		return err
	})
	if isUnresolved(err) || isFollowed(err) || isConflicting(err) {
		return v.commit(ctx, b, true)
	}
	if err == nil {
		s.promoteLeft(ctx, b, &out, s.leftBy(b, w))
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
	if !documentsAtOnce(b) {
		return false
	}
	added := b.Insert
	for i := range b.Swap {
		if rows := b.Follows(i); len(rows) > 0 {
			if b.Swap[i].To == task.Processing { // a grab is not followed
				return false
			}
			added = slices.Concat(added, rows)
		}
	}
	if len(w.others) > 0 || len(runs(added, claims)) > 1 {
		return false
	}
	fresh := make(map[task.ID]bool, len(added))
	for _, t := range added {
		if finished(t.State) || isHead(t) {
			return false
		}
		fresh[t.ID] = true
	}
	for i, c := range b.Swap {
		if fresh[c.ID] || b.Removes(i) && !finished(c.To) {
			return false
		}
	}
	return true
}

// followed are the rows that follow the changes of a batch.
type followed struct {
	*insertion
	of []int // for each row, the index of its change
}

// follow returns the insert of the rows that follow the changes of a batch.
func (v *verbs) follow(b *storage.Batch, careful bool) (f followed) {
	var rows []*task.Task
	after, ends := []task.Ref{}, false
	for i := range b.Follow {
		for _, t := range b.Follows(i) {
			ends = ends || finished(b.Swap[i].To)
			rows, after, f.of = append(rows, t), append(after, b.Swap[i].Ref), append(f.of, i)
		}
	}
	f.insertion = v.insertion(rows, after, careful)
	f.ends = ends
	return f
}

// outcomes returns the outcomes of the rows by the changes. made has nil for each change that was not made.
func (f *followed) outcomes(made []*task.Task) (out [][]storage.Inserted) {
	for k, one := range f.insertion.outcomes() {
		if i := f.of[k]; made[i] != nil {
			if out == nil {
				out = make([][]storage.Inserted, len(made))
			}
			out[i] = append(out[i], one)
		}
	}
	return out
}

// doAtOnce does a batch in one round trip.
func (v *verbs) doAtOnce(ctx context.Context, b *storage.Batch, w *swaps, careful bool) (out storage.Outcome, err error) {
	var p pipe
	w.rows = make([]*task.Task, len(b.Swap))
	in, follow := v.insertion(b.Insert, nil, careful), v.follow(b, careful)
	w.notes = follow.ends || writesWithEnds(b)
	in.claim(&p, v.store.sql.allHolders)
	if some := onRules(b); len(some) > 0 {
		p.add(nil, v.store.sql.areFree, texts(some, typeOf), texts(some, orderOf), texts(some, keyOf), uuids(some, idOf))
	}
	if err := v.queue(ctx, &p, w); err != nil {
		return out, err
	}
	v.document(ctx, &p, b)
	follow.claim(&p, v.store.sql.allHolders)
	// What waits for rows or unique keys comes before this, see the comment of the package.
	keys, _ := v.store.keysOf(b, w)
	v.lockKeys(&p, keys)
	if len(b.Insert) > 0 {
		in.add(&p, keys)
	}
	if len(follow.ts) > 0 {
		follow.add(&p, keys)
	}
	v.promote(&p, keys, &out.Heads)
	if err := v.do(ctx, &p); err != nil {
		return out, err
	}
	if len(b.Insert) > 0 {
		out.Inserted = in.outcomes()
		for i := range b.Terms {
			if one := &out.Inserted[i]; !one.Created() {
				one.What = task.Exists
			}
		}
	}
	out.Swapped, out.Followed = w.rows, follow.outcomes(w.rows)
	return out, nil
}

// keysOf returns the ordering keys that are known to have rows in a batch before it is done: the keys that the
// transaction of the batch promotes, and the keys that are promoted after it. A grab leaves no key without a head.
func (s *Store) keysOf(b *storage.Batch, w *swaps) (now, later []string) {
	keys, _ := s.locks.free(b)
	for _, t := range b.Insert {
		keys = appendKey(keys, t)
	}
	for _, some := range [][]int{w.ends, w.agains, w.exits} {
		for _, i := range some {
			if key := b.Swap[i].OrderingKey; key != "" {
				keys = append(keys, key)
			}
		}
	}
	for i := range b.Follow {
		for _, t := range b.Follows(i) {
			keys = appendKey(keys, t)
		}
	}
	keys = distinct(keys)
	n := min(len(keys), keysAtOnce)
	return keys[:n], keys[n:]
}

func appendKey(keys []string, t *task.Task) []string {
	if t.OrderingKey == "" {
		return keys
	}
	return append(keys, t.OrderingKey)
}

// leftBy returns the ordering keys that a batch that was done in one round trip has not promoted.
func (s *Store) leftBy(b *storage.Batch, w *swaps) []string {
	now, left := s.keysOf(b, w)
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
		heads, err := (&verbs{store: s, way: least}).Promote(ctx, left...)
		out.Heads = append(out.Heads, heads...)
		if err != nil {
			s.log.Warn("the next tasks of some ordering keys start later", "error", err)
		}
	}
	_, known := s.locks.free(b)
	s.promoteKnown(ctx, known, out)
	storage.MarkHeads(b, out)
}
