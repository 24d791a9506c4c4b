package bolt

import (
	"context"
	"fmt"

	"go.etcd.io/bbolt"

	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/storage/internal/kv"
)

// Tx is a [storage.Tx] of this store: what the function given to [Store.Update] gets.
type Tx struct {
	*kv.Tx
	bolt *bbolt.Tx
}

var _ storage.Tx = (*Tx)(nil)

// Bolt returns the transaction of the file itself, for business data that has to
// change together with the tasks. The caller keeps that data in buckets of its own,
// leaves the bucket "taskengine" alone, and neither commits nor rolls back. Where the file
// is damaged bbolt panics, and calls of the store do not.
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

// fillPercent is how full a page is left when it is split. New rows come behind the
// old ones in every table, so that little is ever added to the pages in front.
const fillPercent = 0.9

// commit runs fn and makes what it did durable, and returns the hooks to be called.
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
	err = commit(btx)
	if err == nil {
		err = s.here.Gone() // before anybody relies on the commit
	}
	if err != nil {
		// Whether the file has it is not known, and bbolt's idea of the file may be
		// wrong now: a sync that failed once may seem to succeed the next time.
		return nil, fmt.Errorf("bolt: update: %w", s.fail(err))
	}
	committed = true
	return tx.Committed(), nil
}

// SetSetting implements [storage.Settings].
func (s *Store) SetSetting(ctx context.Context, name string, value []byte) error {
	return s.Update(ctx, func(tx storage.Tx) error { return tx.(*Tx).SetSetting(ctx, name, value) })
}
