package sharded

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"

	"github.com/taskengine/taskengine/storage"
)

// MaxDatabases is how many databases a store may have.
const MaxDatabases = 64

// Database is one of the stores that keep the tasks together. Other databases record its name, see
// [storage.Holdings.To]. All nodes of a cluster use the same names.
type Database struct {
	Name  string
	Store Backend
}

// Backend is a store that can be a database of a Store.
type Backend interface {
	storage.Store
	storage.ShardOwner
	storage.Shared
	storage.LiveCounter
	storage.Settings
	storage.Expirer
	storage.Ruled
	storage.Exporter
}

// Store keeps tasks in several databases. Make one with [Open].
type Store struct {
	verbs
	databases []Database // by name, so that all nodes number them alike: see outward
	log       *slog.Logger
	routes    atomic.Pointer[routes] // which database holds what; set by the holder of turn

	turn   chan struct{} // a semaphore of one: its holder may ask the databases for their shards
	asked  atomic.Uint64 // how many such rounds have begun
	latest uint64        // owned by the holder of turn: the newest round that all databases have answered
}

var (
	_ storage.Store        = (*Store)(nil)
	_ storage.Shared       = (*Store)(nil)
	_ storage.LiveCounter  = (*Store)(nil)
	_ storage.KeyInspector = (*Store)(nil)
	_ storage.KeyFinder    = (*Store)(nil)
	_ storage.Settings     = (*Store)(nil)
	_ storage.Expirer      = (*Store)(nil)
	_ storage.Ruled        = (*Store)(nil)
	_ storage.Exporter     = (*Store)(nil)
	_ storage.Divided      = (*Store)(nil)
)

// Open returns the store of the databases. Its Close closes them. Each shard must be held by one of
// them, or be on its way from one to another. log may be nil.
func Open(ctx context.Context, databases []Database, log *slog.Logger) (*Store, error) {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	s := &Store{databases: slices.Clone(databases), log: log, turn: make(chan struct{}, 1)}
	slices.SortFunc(s.databases, func(a, b Database) int { return cmp.Compare(a.Name, b.Name) })
	if err := s.check(); err != nil {
		return nil, fmt.Errorf("sharded: %w", err)
	}
	s.store = s
	for _, p := range s.databases {
		s.in = append(s.in, p.Store)
	}
	r, err := s.ask(ctx, nil)
	if err == nil {
		err = r.wrong()
	}
	if err != nil {
		return nil, fmt.Errorf("sharded: %w", err)
	}
	s.routes.Store(r)
	return s, nil
}

// check returns an error if the databases are too few or too many, or have no distinct names.
func (s *Store) check() error {
	if n := len(s.databases); n < 1 || n > MaxDatabases {
		return fmt.Errorf("there are %d databases, want 1 to %d", n, MaxDatabases)
	}
	for i, p := range s.databases {
		switch {
		case p.Name == "":
			return errors.New("a database has no name")
		case i > 0 && p.Name == s.databases[i-1].Name:
			return fmt.Errorf("two databases have the name %s", p.Name)
		}
	}
	return nil
}

// Close closes all databases.
func (s *Store) Close() error {
	var errs []error
	for i, p := range s.databases {
		errs = append(errs, s.failed(i, p.Store.Close()))
	}
	return errors.Join(errs...)
}

// failed adds the name of the database to an error, if it is not nil.
func (s *Store) failed(database int, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", s.databases[database].Name, err)
}
