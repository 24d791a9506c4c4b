package bolt

import (
	"context"
	"fmt"

	"go.etcd.io/bbolt"

	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/storage/internal/kv"
)

// Tx is the [storage.Tx] that [Store.Update] passes to its function.
type Tx struct {
	*kv.Tx
	bolt *bbolt.Tx
}

var _ storage.Tx = (*Tx)(nil)

// Bolt returns the transaction of the file, for business data that must change together with
// the tasks. The caller keeps that data in other buckets than "taskengine", and neither commits
// nor rolls back. Calls of bbolt panic where the file is damaged; calls of the store do not.
func (tx *Tx) Bolt() *bbolt.Tx { return tx.bolt }

// Update implements [storage.Store]. The Tx given to fn is a [*Tx].
func (s *Store) Update(ctx context.Context, fn func(storage.Tx) error) error {
	if err := s.enter(ctx, "update"); err != nil {
		return err
	}
	defer s.leave()
	hooks, err := s.commit(fn)
	if err != nil {
		return err
	}
	for _, hook := range hooks {
		hook()
	}
	return nil
}

// Commit implements [storage.Store]. It returns when the batch is durable or has failed: a
// file has one transaction at a time.
func (s *Store) Commit(ctx context.Context, b *storage.Batch) storage.Commit {
	return storage.CommitIn(ctx, s.Update, b)
}

// fillPercent is how full a page remains when it is split. New rows come after the old ones in
// every table, so little is added to earlier pages.
const fillPercent = 0.9

// commit runs fn, makes its changes durable, and returns the hooks to call.
func (s *Store) commit(fn func(storage.Tx) error) (hooks []func(), err error) {
	s.write.Lock()
	defer s.write.Unlock()
	if cause := s.broken.Load(); cause != nil {
		return nil, fmt.Errorf("bolt: update: %w", *cause)
	}
	defer faultsPanic()()
	btx, b, err := s.begin(true)
	if err != nil {
		return nil, fmt.Errorf("bolt: update: %w", err)
	}
	b.FillPercent = fillPercent
	tx := s.kv.Begin(&adapter{b: b})
	committed := false
	defer func() {
		if !committed { // fn or the commit failed or panicked
			tx.RolledBack()
			s.end(btx, &err)
		}
	}()
	if err := fn(&Tx{tx, btx}); err != nil {
		return nil, err
	}
	if err := tx.Err(); err != nil {
		return nil, err
	}
	number := int64(btx.ID())
	err = commit(btx)
	if err == nil {
		s.newest.Store(number)
		err = s.here.Gone() // before the caller relies on the commit
	}
	if err != nil {
		// It is unknown whether the file has the changes, and the state of bbolt may
		// contradict the file: a sync that failed once may seem to succeed the next time.
		return nil, fmt.Errorf("bolt: update: %w", s.fail(err))
	}
	committed = true
	return tx.Committed(), nil
}

// SetSetting implements [storage.Settings].
func (s *Store) SetSetting(ctx context.Context, name string, value []byte) error {
	return s.Update(ctx, func(tx storage.Tx) error { return tx.(*Tx).SetSetting(ctx, name, value) })
}
