package life

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

// databases is how many databases keep the tasks of a divided plan.
const databases = 2

// errMoving is the error of calls that need tasks of a shard that is being moved.
var errMoving = fmt.Errorf("storm: the shard is being moved: %w", storage.ErrUnavailable)

// doIn applies the rows of a batch that a database holds, in a transaction there, and records the outcomes.
// isSure says that a change that did nothing has come too late if the database holds its shard.
func (w *world) doIn(n *node, database int, b *storage.Batch, isSure func() bool) (storage.Outcome, error) {
	out := storage.Outcome{Inserted: make([]storage.Inserted, len(b.Insert)), Swapped: make([]*task.Task, len(b.Swap))}
	err := w.base.Update(context.Background(), func(under storage.Tx) error {
		part := &storage.Batch{Keys: b.Keys}
		var inserts, swaps []int // by index into b
		for i, t := range b.Insert {
			if w.homes.get(t.ID.Shard()) == database {
				part.Insert, inserts = append(part.Insert, t), append(inserts, i)
			} else {
				out.Elsewhere = append(out.Elsewhere, i)
			}
		}
		for i, c := range b.Swap {
			if w.homes.get(c.ID.Shard()) == database {
				part.Swap, part.Remove, swaps = append(part.Swap, c), append(part.Remove, b.Removes(i)), append(swaps, i)
				part.Follow = append(part.Follow, b.Follows(i))
			} else {
				out.Elsewhere = append(out.Elsewhere, len(b.Insert)+i)
			}
		}
		x := &tx{Tx: under, n: n}
		done, err := storage.Do(context.Background(), x, part)
		if err != nil {
			return err
		}
		if err := w.poisoned(x.touched); err != nil {
			return err
		}
		w.journal(n, x.steps)
		sure := len(out.Elsewhere) == 0 && isSure()
		for k, i := range inserts {
			out.Inserted[i] = done.Inserted[k]
		}
		out.Followed = make([][]storage.Inserted, len(b.Swap))
		for k, i := range swaps {
			out.Followed[i] = done.FollowedBy(k)
			if out.Swapped[i] = done.Swapped[k]; done.Swapped[k] == nil && !sure {
				out.Elsewhere = append(out.Elsewhere, len(b.Insert)+i)
			}
		}
		slices.Sort(out.Elsewhere)
		out.Heads = done.Heads
		return nil
	})
	if err != nil {
		return storage.Outcome{}, err
	}
	return out, nil
}

// parts is a store that consists of several databases.
type parts struct {
	remote
	left []int // which are left out of reads
}

var _ storage.Divided = parts{}

// Shards implements [storage.ShardBound].
func (parts) Shards() *task.Shards { return nil }

// Databases implements [storage.Divided].
func (parts) Databases() int { return databases }

// Without implements [storage.Divided].
func (l parts) Without(some ...int) storage.Tasks { return parts{l.remote, slices.Clone(some)} }

// known has the places of shards, as a node believes.
type known struct {
	of       [task.ShardCount]int
	revision [databases]int
}

// look asks the databases for their shards.
func (l *link) look() {
	h := l.w.homes
	h.mu.Lock()
	now := known{h.of, h.revision}
	h.mu.Unlock()
	l.mu.Lock()
	l.known = now
	l.mu.Unlock()
}

// DatabaseOf implements [storage.Divided].
func (l parts) DatabaseOf(shard uint16) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.known.of[shard]
}

// CommitIn implements [storage.Divided].
func (l parts) CommitIn(ctx context.Context, database int, b *storage.Batch) storage.Commit {
	return storage.Later(func() (storage.Outcome, error) {
		if database == databases {
			return l.leaveOut(b)
		}
		_ = storage.NoteFirst(ctx, l, b)
		out, err := l.commitIn(ctx, database, &storage.Batch{Insert: b.Insert, Swap: b.Swap, Remove: b.Remove, Follow: b.Follow, Keys: b.Keys})
		if len(out.Elsewhere) > 0 && (l.w.calm.Load() || l.w.roll(4) > 0) {
			l.look()
		}
		return out, err
	})
}

// leaveOut leaves out all of a batch, unless all of it is being moved.
func (l parts) leaveOut(b *storage.Batch) (storage.Outcome, error) {
	if l.n.isDead() {
		return storage.Outcome{}, errKilled
	}
	l.look()
	out := storage.Outcome{Inserted: make([]storage.Inserted, len(b.Insert)), Swapped: make([]*task.Task, len(b.Swap))}
	isHeld := false
	leave := func(id task.ID) {
		out.Elsewhere = append(out.Elsewhere, len(out.Elsewhere))
		isHeld = isHeld || l.DatabaseOf(id.Shard()) != databases
	}
	for _, t := range b.Insert {
		leave(t.ID)
	}
	for _, c := range b.Swap {
		leave(c.ID)
	}
	if len(out.Elsewhere) == 0 {
		isHeld = *l.w.homes.held(nil) == task.AllShards()
	}
	if !isHeld {
		return storage.Outcome{}, storage.Undone(errMoving)
	}
	return out, nil
}

// commitIn commits a batch in a database, in the weather that there is.
func (l parts) commitIn(ctx context.Context, database int, b *storage.Batch) (out storage.Outcome, err error) {
	l.mu.Lock()
	now, revision := l.now, l.known.revision[database]
	l.mu.Unlock()
	v := verbsOf(b)
	do := func() error {
		out, err = l.w.doIn(l.n, database, b, func() bool { return l.w.homes.at(database) == revision })
		return err
	}
	failed := func(err error) error { return (&fault{down: now.down}).err(err) }
	switch isProbe := v == 0; {
	case now.away == database+1 && (now.on&v != 0 || isProbe && l.w.roll(2) == 0):
		err = l.away(now, do)
	case now.on&v != 0 && now.overtake > 0 && l.w.roll(100) < now.overtake && !l.n.isDead():
		c := clone(b)
		l.w.later(func() { _, _ = l.w.doIn(l.n, database, c, func() bool { return true }) })
		if err = l.travel(ctx, time.Duration(l.w.roll(int(time.Second)))); err == nil {
			err = failed(errLost)
		}
	default:
		err = l.write(ctx, v, do)
	}
	if err != nil {
		return storage.Outcome{}, err
	}
	return out, nil
}

// away is a commit in a database that is away.
func (l *link) away(now weather, do func() error) error {
	f := fault{down: now.down}
	if !l.enter() {
		return errKilled
	}
	defer l.leave()
	switch now.fate {
	case fails:
		if l.w.roll(3) == 0 {
			return storage.Undone(f.err(errStorm))
		}
		return f.err(errStorm)
	case hangs:
		if err := l.travel(context.Background(), l.w.span(0, 20*time.Second)); err != nil {
			if l.w.roll(2) == 0 { // it had left the node before that was killed
				_ = do()
			}
			return err
		}
		if l.w.roll(3) == 0 {
			return f.err(errStorm)
		}
	}
	if err := do(); err != nil {
		return err
	}
	if now.fate == hangs && l.w.roll(2) == 0 {
		return l.travel(context.Background(), l.w.span(0, 5*time.Second))
	}
	return f.err(errLost)
}

// reach returns why the rows of some tasks cannot be read or changed at present, or nil. It is nil
// if one database keeps all tasks.
func (l *link) reach(v verbs, ids ...task.ID) error {
	switch {
	case !l.w.plan.divided:
		return nil
	case l.n.isDead():
		return errKilled
	}
	l.mu.Lock()
	now := l.now
	l.mu.Unlock()
	for _, id := range ids {
		switch at := l.w.homes.get(id.Shard()); {
		case at == databases:
			return errMoving
		case at+1 == now.away && now.on&v != 0 && now.fate != blind:
			return (&fault{down: now.down}).err(errStorm)
		}
	}
	return nil
}

// late returns why databases do not answer. One that hangs takes its time for that.
func (l *link) late(ctx context.Context, err error) error {
	l.mu.Lock()
	hangs := l.now.fate == hangs
	l.mu.Unlock()
	if err == nil || !hangs {
		return err
	}
	return errors.Join(l.travel(ctx, l.w.span(0, 5*time.Second)), err)
}

// ask asks all databases that are not left out, and returns why they do not answer.
func (l parts) ask(ctx context.Context) error {
	l.mu.Lock()
	now := l.now
	l.mu.Unlock()
	if now.away > 0 && !slices.Contains(l.left, now.away-1) && now.on&reads != 0 && now.fate != blind {
		return l.late(ctx, (&fault{down: now.down}).err(errStorm))
	}
	return nil
}

// Get implements [storage.Tasks].
func (l parts) Get(ctx context.Context, id task.ID) (*task.Task, error) {
	if err := l.late(ctx, l.reach(reads, id)); err != nil {
		return nil, err
	}
	return l.link.Get(ctx, id)
}

// Due implements [storage.Tasks].
func (l parts) Due(ctx context.Context, q storage.DueQuery) ([]storage.Due, error) {
	q.Shards = l.w.homes.held(q.Shards, l.left...)
	out, err := l.link.Due(ctx, q)
	return out, errors.Join(err, l.ask(ctx))
}

// Ready implements [storage.Tasks].
func (l parts) Ready(ctx context.Context, q storage.ReadyQuery) ([]task.Trigger, error) {
	q.Shards = l.w.homes.held(q.Shards, l.left...)
	out, err := l.link.Ready(ctx, q)
	return out, errors.Join(err, l.ask(ctx))
}

// Queues implements [storage.Tasks].
func (l parts) Queues(ctx context.Context, after task.Queue, limit int) ([]task.Queue, error) {
	out, err := l.link.Queues(ctx, after, limit)
	return out, errors.Join(err, l.ask(ctx))
}

// Headless implements [storage.Tasks].
func (l parts) Headless(ctx context.Context, after string, limit int) (storage.HeadlessPage, error) {
	out, err := l.link.Headless(ctx, after, limit)
	return out, errors.Join(err, l.ask(ctx))
}

// Unclaimed implements [storage.Shared].
func (l parts) Unclaimed(ctx context.Context, q storage.UnclaimedQuery) (storage.UnclaimedPage, error) {
	q.Shards = l.w.homes.held(q.Shards, l.left...)
	out, err := l.link.Unclaimed(ctx, q)
	return out, errors.Join(err, l.ask(ctx))
}

// Submitted implements [storage.Shared].
func (l parts) Submitted(ctx context.Context, q storage.SubmittedQuery) ([]task.Hint, storage.Cursor, error) {
	q.Shards = l.w.homes.held(q.Shards, l.left...)
	page, next, err := l.link.Submitted(ctx, q)
	return page, next, errors.Join(err, l.ask(ctx))
}

// Orphans implements [storage.Shared].
func (l parts) Orphans(ctx context.Context, alive []task.ID, after task.ID, scan int) ([]*task.Task, task.ID, error) {
	rows, next, err := l.link.Orphans(ctx, alive, after, scan)
	held := l.w.homes.held(nil)
	rows = slices.DeleteFunc(rows, func(t *task.Task) bool { return !held.Has(t.ID.Shard()) })
	return rows, next, errors.Join(err, l.ask(ctx))
}

// Outdated implements [storage.Shared].
func (l parts) Outdated(ctx context.Context, owner task.ID, refs ...task.Ref) ([]bool, error) {
	for _, ref := range refs {
		if err := l.late(ctx, l.reach(reads, ref.ID)); err != nil {
			return nil, err
		}
	}
	return l.link.Outdated(ctx, owner, refs...)
}
