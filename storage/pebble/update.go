package pebble

import (
	"context"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/storage/internal/kv"
)

// SetSetting implements [storage.Settings].
func (s *Store) SetSetting(ctx context.Context, name string, value []byte) error {
	return s.update(ctx, "set setting", true, func(tx storage.Tx) error {
		return tx.(*kv.Tx).SetSetting(ctx, name, value)
	})
}

// Update implements [storage.Store]. Transactions run one after the other. While transactions
// wait for a sync, which they share, the next one runs.
func (s *Store) Update(ctx context.Context, fn func(storage.Tx) error) error {
	return s.update(ctx, "update", true, fn)
}

// UpdateNoSync implements [storage.NoSyncer].
func (s *Store) UpdateNoSync(ctx context.Context, fn func(storage.Tx) error) error {
	return s.update(ctx, "relax", false, fn)
}

// Commit implements [storage.Store]. It returns when the batch is applied: the next one is
// applied while this one waits for the disk.
func (s *Store) Commit(ctx context.Context, b *storage.Batch) storage.Commit {
	if err := s.writable(ctx, "commit"); err != nil {
		return storage.Committed(storage.Outcome{}, storage.Undone(err))
	}
	p := &pending{store: s}
	var failed error
	p.commit, p.err = s.apply(true, func(tx storage.Tx) error {
		p.out, failed = storage.Do(ctx, tx, b)
		return failed
	})
	if failed != nil {
		p.err = storage.Undone(p.err)
	}
	return p
}

// pending is a batch that was applied and may not be durable yet.
type pending struct {
	store  *Store
	commit commit
	out    storage.Outcome
	err    error
}

// Wait implements [storage.Commit].
func (p *pending) Wait() (storage.Outcome, error) {
	defer p.store.leave()
	if p.err != nil {
		return storage.Outcome{}, p.err
	}
	if err := p.commit.wait(p.store); err != nil {
		return storage.Outcome{}, fmt.Errorf("pebble: commit: %w", err)
	}
	return p.out, nil
}

// writable enters a call that writes. If it returns nil the caller must leave.
func (s *Store) writable(ctx context.Context, call string) error {
	if err := s.enter(ctx, call); err != nil {
		return err
	}
	if s.readOnly {
		s.leave()
		return fmt.Errorf("pebble: %s: %w", call, pebble.ErrReadOnly)
	}
	return nil
}

func (s *Store) update(ctx context.Context, call string, durable bool, fn func(storage.Tx) error) error {
	if err := s.writable(ctx, call); err != nil {
		return err
	}
	defer s.leave()
	c, err := s.apply(durable, fn)
	if err != nil {
		return err
	}
	if err := c.wait(s); err != nil {
		return fmt.Errorf("pebble: %s: %w", call, err)
	}
	for _, hook := range c.hooks {
		hook()
	}
	return nil
}

// commit is a transaction that was applied and is not yet known to be durable.
type commit struct {
	batch  *pebble.Batch // nil if there is nothing to wait for
	number uint64        // of the batch, see Store.applied
	hooks  []func()
}

// apply runs fn and applies its changes, which all later transactions see.
func (s *Store) apply(durable bool, fn func(storage.Tx) error) (c commit, err error) {
	s.write.Lock()
	defer s.write.Unlock()
	w := &writer{db: s.db, batch: s.db.NewBatch()}
	defer func() { w.close(c.batch != nil) }()
	tx := s.kv.Begin(w)
	done := false
	defer func() {
		if !done { // fn failed or panicked
			tx.RolledBack()
		}
	}()
	if err := fn(tx); err != nil {
		return commit{}, err
	}
	if err := tx.Err(); err != nil {
		return commit{}, err
	}
	// What fn has read may not be synced yet. The caller must not act on it before it is.
	if !tx.Wrote() && (!durable || s.synced.Load() == s.applied) {
		done = true
		return commit{hooks: tx.Committed()}, nil
	}
	if err := w.join(); err != nil {
		return commit{}, fmt.Errorf("pebble: %w", err)
	}
	if err := s.putMark(w.batch); err != nil {
		return commit{}, fmt.Errorf("pebble: %w", err)
	}
	if err := s.applyBatch(w.batch, durable); err != nil {
		return commit{}, err
	}
	done = true
	s.applied++
	c.number, c.hooks = s.applied, tx.Committed()
	if durable {
		c.batch = w.batch
	}
	return c, s.fs.err()
}

func (s *Store) applyBatch(b *pebble.Batch, durable bool) (err error) {
	if durable {
		err = s.db.ApplyNoSyncWait(b, pebble.Sync)
	} else {
		err = s.db.Apply(b, pebble.NoSync)
	}
	if err != nil {
		s.fs.stop(err) // some of it may be applied
		return fmt.Errorf("pebble: %w", s.fs.err())
	}
	return nil
}

// gone returns an error if the files of the store were removed, replaced or overwritten.
func (s *Store) gone() error {
	if err := s.here.Gone(); err != nil || s.fs.tails == nil {
		return err
	}
	return s.fs.tails.gone()
}

// wait returns when the transaction is durable.
func (c *commit) wait(s *Store) error {
	if c.batch == nil {
		return nil
	}
	err := c.batch.SyncWait()
	if err == nil {
		err = s.gone() // before the caller relies on the commit
	}
	if err != nil {
		s.fs.stop(err)
	}
	if err := s.fs.err(); err != nil {
		return err
	}
	for n := s.synced.Load(); n < c.number; n = s.synced.Load() {
		if s.synced.CompareAndSwap(n, c.number) {
			break
		}
	}
	return c.batch.Close()
}

var _ kv.ReadWriter = (*writer)(nil)
