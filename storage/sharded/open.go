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

// MaxPlaces is how many places a store may have.
const MaxPlaces = 64

// Place is one of the stores that keep the tasks together. Other places record its name, see
// [storage.Holdings.To]. All nodes of a cluster use the same names.
type Place struct {
	Name  string
	Store Backend
}

// Backend is what a store must be to be a place.
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

// Store keeps tasks in several places. Make one with [Open].
type Store struct {
	verbs
	places []Place // by name, so that all nodes number them alike: see outward
	log    *slog.Logger
	routes atomic.Pointer[routes] // which place holds what; set by the holder of turn

	turn   chan struct{} // a semaphore of one: its holder may ask the places what they hold
	asked  atomic.Uint64 // how many such rounds have begun
	latest uint64        // owned by the holder of turn: the newest round that all places have answered
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

// Open returns the store of the places, whose Close closes them. Each shard must be held by one of
// them, or be on its way from one to another. log may be nil.
func Open(ctx context.Context, places []Place, log *slog.Logger) (*Store, error) {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	s := &Store{places: slices.Clone(places), log: log, turn: make(chan struct{}, 1)}
	slices.SortFunc(s.places, func(a, b Place) int { return cmp.Compare(a.Name, b.Name) })
	if err := s.check(); err != nil {
		return nil, fmt.Errorf("sharded: %w", err)
	}
	s.store = s
	for _, p := range s.places {
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

// check returns what is wrong with the places themselves.
func (s *Store) check() error {
	if n := len(s.places); n < 1 || n > MaxPlaces {
		return fmt.Errorf("there are %d databases, want 1 to %d", n, MaxPlaces)
	}
	for i, p := range s.places {
		switch {
		case p.Name == "":
			return errors.New("a database has no name")
		case i > 0 && p.Name == s.places[i-1].Name:
			return fmt.Errorf("two databases have the name %s", p.Name)
		}
	}
	return nil
}

// Close closes all places.
func (s *Store) Close() error {
	var errs []error
	for i, p := range s.places {
		errs = append(errs, s.failed(i, p.Store.Close()))
	}
	return errors.Join(errs...)
}

// failed adds the name of the place to an error, if it is not nil.
func (s *Store) failed(place int, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", s.places[place].Name, err)
}
