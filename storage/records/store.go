package records

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/storage/internal/kv"
)

// Store keeps tasks in a [Backend]. Its methods may be called by any goroutine at any time.
type Store struct {
	kv.Calls

	name    string
	backend Backend
	rows    *kv.DB

	write sync.Mutex // held while a transaction is in progress

	life   sync.RWMutex // held shared by each call under way, and exclusively by Close
	closed bool         // guarded by life

	broken atomic.Pointer[error] // the error of every further call; nil unless a commit has failed
}

var (
	_ storage.Store        = (*Store)(nil)
	_ storage.Inspector    = (*Store)(nil)
	_ storage.KeyInspector = (*Store)(nil)
	_ storage.KeyFinder    = (*Store)(nil)
	_ storage.Settings     = (*Store)(nil)
	_ storage.Exporter     = (*Store)(nil)
)

// Open returns the store in b. An empty backend becomes an empty store, and one that has something else is refused. Errors
// begin with name. Close of the store closes b, and so does Open if it fails.
func Open(ctx context.Context, name string, b Backend) (*Store, error) {
	s := &Store{name: name, backend: b}
	s.Calls = kv.NewCalls(s.Update, s.view)
	if err := s.open(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: open: %w", name, err), b.Close())
	}
	return s, nil
}

func (s *Store) open(ctx context.Context) error {
	t, err := s.backend.Begin(ctx)
	if err != nil {
		return err
	}
	if s.rows, err = kv.Open(s.name, newWriter(t), false); err != nil {
		return errors.Join(err, t.Rollback())
	}
	return t.Commit()
}

// Close implements [storage.Store]. It waits for the calls under way.
func (s *Store) Close() error {
	s.life.Lock()
	defer s.life.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	if err := s.backend.Close(); err != nil {
		return fmt.Errorf("%s: close: %w", s.name, err)
	}
	return nil
}

// enter begins a call. If it returns nil the caller must leave.
func (s *Store) enter(ctx context.Context, call string) error {
	err := ctx.Err()
	if err == nil {
		s.life.RLock()
		if cause := s.broken.Load(); cause != nil {
			err = *cause
		}
		if s.closed {
			err = storage.ErrClosed
		}
		if err != nil {
			s.leave()
		}
	}
	if err != nil {
		return fmt.Errorf("%s: %s: %w", s.name, call, err)
	}
	return nil
}

func (s *Store) leave() { s.life.RUnlock() }

func (s *Store) view(ctx context.Context, call string, fn func(*kv.View) error) (err error) {
	if err := s.enter(ctx, call); err != nil {
		return err
	}
	defer s.leave()
	at, err := s.backend.View(ctx)
	if err != nil {
		return fmt.Errorf("%s: %s: %w", s.name, call, err)
	}
	defer func() {
		if failed := at.Close(); failed != nil && err == nil {
			err = fmt.Errorf("%s: %s: %w", s.name, call, failed)
		}
	}()
	v := s.rows.Read(reader{at})
	return fn(&v)
}

// Tx is the [storage.Tx] that [Store.Update] passes to its function.
type Tx struct {
	*kv.Tx
	backend Transaction
}

var _ storage.Tx = (*Tx)(nil)

// Backend returns the transaction of the backend, for business data that must change together with the tasks: a backend may
// have a place for it beside the keys of the store. The caller neither commits nor rolls back, and leaves the keys alone.
func (tx *Tx) Backend() Transaction { return tx.backend }

// Update implements [storage.Store]. The Tx given to fn is a [*Tx].
func (s *Store) Update(ctx context.Context, fn func(storage.Tx) error) error {
	if err := s.enter(ctx, "update"); err != nil {
		return err
	}
	defer s.leave()
	hooks, err := s.commit(ctx, fn)
	if err != nil {
		return err
	}
	for _, hook := range hooks {
		hook()
	}
	return nil
}

// Commit implements [storage.Store]. It returns when the batch is durable or has failed.
func (s *Store) Commit(ctx context.Context, b *storage.Batch) storage.Commit {
	return storage.CommitIn(ctx, s.Update, b)
}

// SetSetting implements [storage.Settings].
func (s *Store) SetSetting(ctx context.Context, name string, value []byte) error {
	return s.Update(ctx, func(tx storage.Tx) error { return tx.(*Tx).SetSetting(ctx, name, value) })
}

// commit runs fn, makes its changes durable, and returns the hooks to call.
func (s *Store) commit(ctx context.Context, fn func(storage.Tx) error) (hooks []func(), err error) {
	s.write.Lock()
	defer s.write.Unlock()
	if cause := s.broken.Load(); cause != nil {
		return nil, fmt.Errorf("%s: update: %w", s.name, *cause)
	}
	t, err := s.backend.Begin(ctx)
	if err != nil {
		return nil, fmt.Errorf("%s: update: %w", s.name, err)
	}
	tx := s.rows.Begin(newWriter(t))
	isOver := false
	defer func() {
		if isOver {
			return
		}
		tx.RolledBack() // fn has failed or panicked
		if failed := t.Rollback(); failed != nil {
			err = errors.Join(err, s.fail(failed))
		}
	}()
	if err := fn(&Tx{tx, t}); err != nil {
		return nil, err
	}
	if err := tx.Err(); err != nil {
		return nil, err
	}
	isOver = true
	if err := t.Commit(); err != nil {
		tx.RolledBack()
		return nil, s.fail(err) // the writes may have been made or not, so memory and store may differ
	}
	return tx.Committed(), nil
}

// fail makes the store refuse every further call.
func (s *Store) fail(cause error) error {
	err := fmt.Errorf("%s: update: %w", s.name, kv.Broken(cause))
	s.broken.CompareAndSwap(nil, &err)
	return err
}
