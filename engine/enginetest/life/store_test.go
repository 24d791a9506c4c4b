package life

import (
	"context"
	"slices"
	"time"

	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

// The stores that a node may have. All of them are its link, with different abilities.
type (
	nearby struct{ *link } // relaxes
	remote struct{ *link } // takes whole batches
)

var (
	_ storage.Store     = nearby{}
	_ storage.NoSyncer  = nearby{}
	_ storage.Shared    = nearby{}
	_ storage.Settings  = nearby{}
	_ storage.Inspector = nearby{}
	_ storage.Store     = remote{}
)

// store returns the store of the node.
func (l *link) store() storage.Store {
	switch {
	case l.w.plan.divided:
		return parts{remote: remote{l}}
	case l.w.plan.batcher:
		return remote{l}
	}
	return nearby{l}
}

// UpdateNoSync implements [storage.NoSyncer].
func (l nearby) UpdateNoSync(ctx context.Context, fn func(storage.Tx) error) error {
	return l.update(ctx, true, fn)
}

// Commit implements [storage.Store]: one batch after the other.
func (l *link) Commit(ctx context.Context, b *storage.Batch) storage.Commit {
	return storage.CommitLaterIn(ctx, l.Update, b)
}

// Commit implements [storage.Store]: all of a batch at once.
func (l remote) Commit(ctx context.Context, b *storage.Batch) storage.Commit {
	return storage.Later(func() (storage.Outcome, error) {
		_ = storage.NoteFirst(ctx, l, b)
		return l.do(ctx, &storage.Batch{Insert: b.Insert, Swap: b.Swap, Remove: b.Remove, Follow: b.Follow, Keys: b.Keys})
	})
}

func (l remote) do(ctx context.Context, b *storage.Batch) (out storage.Outcome, err error) {
	l.mu.Lock()
	now := l.now
	l.mu.Unlock()
	v := verbsOf(b)
	if now.on&v != 0 && now.overtake > 0 && l.w.roll(100) < now.overtake && !l.n.isDead() {
		c := clone(b)
		l.w.later(func() { _, _ = l.w.do(l.n, c) })
		if err := l.travel(ctx, time.Duration(l.w.roll(int(time.Second)))); err != nil {
			return out, err
		}
		return out, (&fault{down: now.down}).err(errLost)
	}
	err = l.write(ctx, v, func() error {
		out, err = l.w.do(l.n, b)
		return err
	})
	if err != nil {
		return storage.Outcome{}, err
	}
	return out, nil
}

// clone returns a copy of b that the caller may keep.
func clone(b *storage.Batch) *storage.Batch {
	c := &storage.Batch{Swap: slices.Clone(b.Swap), Remove: slices.Clone(b.Remove), Keys: slices.Clone(b.Keys)}
	for _, t := range b.Insert {
		c.Insert = append(c.Insert, t.Clone())
	}
	for _, rows := range b.Follow {
		var follow []*task.Task
		for _, t := range rows {
			follow = append(follow, t.Clone())
		}
		c.Follow = append(c.Follow, follow)
	}
	return c
}

// do applies a batch in a transaction and records the outcomes.
func (w *world) do(n *node, b *storage.Batch) (out storage.Outcome, err error) {
	err = w.base.Update(context.Background(), func(under storage.Tx) (err error) {
		x := &tx{Tx: under, n: n}
		if out, err = storage.Do(context.Background(), x, b); err != nil {
			return err
		}
		if err := w.poisoned(x.touched); err != nil {
			return err
		}
		w.journal(n, x.steps)
		return nil
	})
	return out, err
}

// later calls a function that applies a batch, some time after the caller of that got an error.
func (w *world) later(do func()) {
	after := time.Duration(w.roll(int(8 * time.Second)))
	w.lates.Add(1)
	w.flights.Go(func() {
		time.Sleep(after)
		do()
		w.lates.Add(-1)
	})
}

// Update implements [storage.Store].
func (l *link) Update(ctx context.Context, fn func(storage.Tx) error) error {
	return l.update(ctx, false, fn)
}

// Close implements [storage.Store].
func (l *link) Close() error { return nil }

func (l *link) Insert(ctx context.Context, ts ...*task.Task) (out []storage.Inserted, err error) {
	err = l.update(ctx, false, func(tx storage.Tx) (err error) {
		out, err = tx.Insert(ctx, ts...)
		return err
	})
	return out, err
}

func (l *link) Swap(ctx context.Context, cs ...task.Change) (out []*task.Task, err error) {
	err = l.update(ctx, false, func(tx storage.Tx) (err error) {
		out, err = tx.Swap(ctx, cs...)
		return err
	})
	return out, err
}

func (l *link) Delete(ctx context.Context, rs ...task.Ref) (out []bool, err error) {
	err = l.update(ctx, false, func(tx storage.Tx) (err error) {
		out, err = tx.Delete(ctx, rs...)
		return err
	})
	return out, err
}

func (l *link) Promote(ctx context.Context, keys ...string) (heads []task.Hint, err error) {
	err = l.update(ctx, false, func(tx storage.Tx) (err error) {
		heads, err = tx.Promote(ctx, keys...)
		return err
	})
	return heads, err
}

func (l *link) Headless(ctx context.Context, after string, limit int) (storage.HeadlessPage, error) {
	return read(ctx, l, reads, func() (storage.HeadlessPage, error) { return l.w.base.Headless(ctx, after, limit) })
}

func (l *link) Note(ctx context.Context, ns ...task.Note) (out []bool, err error) {
	err = l.write(ctx, notes, func() (err error) {
		out, err = l.w.base.Note(ctx, ns...)
		return err
	})
	return out, err
}

func (l *link) Existing(ctx context.Context, ts ...*task.Task) ([]task.ID, error) {
	return read(ctx, l, reads, func() ([]task.ID, error) { return l.w.base.Existing(ctx, ts...) })
}

func (l *link) Get(ctx context.Context, id task.ID) (*task.Task, error) {
	return read(ctx, l, reads, func() (*task.Task, error) { return l.w.base.Get(ctx, id) })
}

func (l *link) Due(ctx context.Context, q storage.DueQuery) ([]storage.Due, error) {
	return read(ctx, l, reads, func() ([]storage.Due, error) { return l.w.base.Due(ctx, q) })
}

func (l *link) Ready(ctx context.Context, q storage.ReadyQuery) ([]task.Trigger, error) {
	return read(ctx, l, reads, func() ([]task.Trigger, error) { return l.w.base.Ready(ctx, q) })
}

func (l *link) Queues(ctx context.Context, after task.Queue, limit int) ([]task.Queue, error) {
	return read(ctx, l, reads, func() ([]task.Queue, error) { return l.w.base.Queues(ctx, after, limit) })
}

// Unclaimed implements [storage.Shared].
func (l *link) Unclaimed(ctx context.Context, q storage.UnclaimedQuery) (storage.UnclaimedPage, error) {
	return read(ctx, l, reads, func() (storage.UnclaimedPage, error) { return l.w.base.Unclaimed(ctx, q) })
}

// Submitted implements [storage.Shared].
func (l *link) Submitted(ctx context.Context, q storage.SubmittedQuery) (page []task.Hint, next storage.Cursor, err error) {
	page, err = read(ctx, l, reads, func() (page []task.Hint, err error) {
		page, next, err = l.w.base.Submitted(ctx, q)
		return page, err
	})
	return page, next, err
}

// Orphans implements [storage.Shared].
func (l *link) Orphans(ctx context.Context, alive []task.ID, after task.ID, scan int) ([]*task.Task, task.ID, error) {
	var next task.ID
	ts, err := read(ctx, l, reads, func() (ts []*task.Task, err error) {
		ts, next, err = l.w.base.Orphans(ctx, alive, after, scan)
		return ts, err
	})
	return ts, next, err
}

// Outdated implements [storage.Shared].
func (l *link) Outdated(ctx context.Context, owner task.ID, refs ...task.Ref) ([]bool, error) {
	return read(ctx, l, reads, func() ([]bool, error) { return l.w.base.Outdated(ctx, owner, refs...) })
}

// SwapSetting implements [storage.Shared].
func (l *link) SwapSetting(ctx context.Context, name string, old, value []byte) (done bool, err error) {
	err = l.write(ctx, settings, func() error {
		done, err = l.w.base.SwapSetting(ctx, name, old, value)
		return err
	})
	return done && err == nil, err
}

// Setting implements [storage.Settings].
func (l *link) Setting(ctx context.Context, name string) ([]byte, error) {
	return read(ctx, l, settings, func() ([]byte, error) { return l.w.base.Setting(ctx, name) })
}

// SetSetting implements [storage.Settings].
func (l *link) SetSetting(ctx context.Context, name string, value []byte) error {
	return l.write(ctx, settings, func() error { return l.w.base.SetSetting(ctx, name, value) })
}

// List implements [storage.Inspector].
func (l *link) List(ctx context.Context, q storage.ListQuery) (storage.ListPage, error) {
	return l.w.base.List(ctx, q)
}

// Count implements [storage.Inspector].
func (l *link) Count(ctx context.Context, f storage.Filter) (map[storage.StateType]int64, error) {
	return l.w.base.Count(ctx, f)
}
