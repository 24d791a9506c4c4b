package sharded

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

// ErrMoving is wrapped by the errors of calls that need tasks of a shard that is on its way
// from one database to another. It is a [storage.ErrUnavailable], too.
var ErrMoving error = moving{}

type moving struct{}

func (moving) Error() string { return "are being moved" }

// Is implements what [errors.Is] asks for.
func (moving) Is(target error) bool { return target == storage.ErrUnavailable }

// nowhere is the database of a shard that none holds.
const nowhere = -1

// routes says which database holds which shard, by the answers of the databases. It does not change.
type routes struct {
	names    []string
	homes    []storage.Holdings
	database [task.ShardCount]int8 // by shard
	twice    task.Shards           // shards that several databases claim, which are nowhere
}

// newRoutes makes routes of the answers of the databases. An answer that is not fresh may be outdated,
// and counts only for shards that no other database claims.
func newRoutes(names []string, homes []storage.Holdings, fresh []bool) *routes {
	r := &routes{names: names, homes: homes}
	for shard := range uint16(task.ShardCount) {
		r.database[shard] = nowhere
		for _, now := range []bool{true, false} {
			for i := range homes {
				if fresh[i] != now || !homes[i].Owned.Has(shard) {
					continue
				}
				if held := r.database[shard]; held == nowhere {
					r.database[shard] = int8(i)
				} else if fresh[held] == now {
					r.twice.Add(shard)
				}
			}
		}
		if r.twice.Has(shard) {
			r.database[shard] = nowhere
		}
	}
	return r
}

// of returns the database that holds a shard, or nowhere.
func (r *routes) of(shard uint16) int { return int(r.database[shard]) }

// missing returns the shards among some that no database holds.
func (r *routes) missing(shards task.Shards) (missing task.Shards) {
	for shard := range uint16(task.ShardCount) {
		if shards.Has(shard) && r.of(shard) == nowhere {
			missing.Add(shard)
		}
	}
	return missing
}

// leaving returns the shards that are on their way, and lost the shards that no database mentions.
func (r *routes) leaving() (leaving, lost task.Shards) {
	for shard := range uint16(task.ShardCount) {
		if r.of(shard) != nowhere {
			continue
		}
		if slices.ContainsFunc(r.homes, func(h storage.Holdings) bool { return h.Migrating.Has(shard) }) {
			leaving.Add(shard)
		} else if !r.twice.Has(shard) {
			lost.Add(shard)
		}
	}
	return leaving, lost
}

// wrong returns why the databases cannot be used as they are, or nil.
func (r *routes) wrong() error {
	leaving, _ := r.leaving()
	all := task.AllShards()
	return r.why(all.Without(&leaving))
}

// why returns why no database holds some shards, or nil if each is held.
func (r *routes) why(shards task.Shards) error {
	var errs []error
	leaving, lost := r.leaving()
	for _, h := range r.homes {
		if some := both(shards, both(leaving, h.Migrating)); !some.IsEmpty() {
			errs = append(errs, fmt.Errorf("the shards %s %w to %s; if that was interrupted, run the move again", &some, ErrMoving, h.To))
		}
	}
	for i, h := range r.homes {
		for j, other := range r.homes[:i] {
			if some := both(both(shards, r.twice), both(h.Owned, other.Owned)); !some.IsEmpty() {
				errs = append(errs, fmt.Errorf("the shards %s are held by %s and by %s; one of them is a copy, or of another engine: take it out of storage.databases; or it was restored from an older backup: restore all to one moment",
					&some, r.names[j], r.names[i]))
			}
		}
	}
	if some := both(shards, lost); !some.IsEmpty() {
		errs = append(errs, fmt.Errorf("no database holds the shards %s; is one missing in storage.databases, or restored from an older backup?", &some))
	}
	return errors.Join(errs...)
}

func both(a, b task.Shards) task.Shards {
	rest := a.Without(&b)
	return a.Without(&rest)
}

// look asks the databases for their shards, and returns answers that were given after the call began.
// Calls at the same time wait for each other, and waiting calls share one round of answers.
func (s *Store) look(ctx context.Context) (*routes, error) {
	asked := s.asked.Load()
	select {
	case s.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { <-s.turn }()
	if s.latest > asked {
		return s.routes.Load(), nil
	}
	number, was := s.asked.Add(1), s.routes.Load()
	r, err := s.ask(ctx, was)
	if r == nil {
		return nil, err
	}
	for i, h := range r.homes {
		if h.Owned != was.homes[i].Owned || h.Migrating != was.homes[i].Migrating {
			s.log.Info("a database holds other shards than before", "database", r.names[i], "shards", h.Owned.String(), "leaving", h.Migrating.String(), "for", h.To)
		}
	}
	if wrong := r.wrong(); wrong != nil && was.wrong() == nil {
		s.log.Warn("the databases do not agree which of them holds which shards", "error", wrong)
	}
	s.routes.Store(r)
	if err == nil {
		s.latest = number
	}
	return r, nil
}

// heldSince returns the shards that a database holds now and held at every moment since it said so for
// known. It returns none if the database has been part of a move since then: a shard may have left it
// and come back.
func (s *Store) heldSince(ctx context.Context, known *routes, database int) (task.Shards, error) {
	home, err := s.databases[database].Store.Holdings(ctx)
	if err != nil || home.Revision != known.homes[database].Revision {
		return task.Shards{}, err
	}
	return home.Owned, nil
}

// attempts is how often the databases are asked at most until their answers agree: they answer at
// different moments, between which a shard may be moved.
const attempts = 3

// ask asks all databases for their shards. For a database that does not answer it takes its last answer, and
// returns an error, too. If no database answers, or if there is no last answer, it returns no routes.
func (s *Store) ask(ctx context.Context, was *routes) (r *routes, err error) {
	for try := 1; ; try++ {
		next, failed := s.askOnce(ctx, was)
		if next == nil && r != nil {
			return r, failed // with earlier answers of some
		}
		if r, err = next, failed; r == nil || try == attempts || r.wrong() == nil {
			return r, err
		}
	}
}

func (s *Store) askOnce(ctx context.Context, was *routes) (*routes, error) {
	n := len(s.databases)
	names, homes, errs, fresh := make([]string, n), make([]storage.Holdings, n), make([]error, n), make([]bool, n)
	var every []int
	for i, p := range s.databases {
		names[i], every = p.Name, append(every, i)
	}
	atOnce(every, func(i int) {
		homes[i], errs[i] = s.databases[i].Store.Holdings(ctx)
		fresh[i] = errs[i] == nil
	})
	for i, err := range errs {
		if errs[i] = s.failed(i, err); err != nil && was != nil {
			homes[i] = was.homes[i]
		}
	}
	err := errors.Join(errs...)
	if err != nil && (was == nil || !slices.Contains(fresh, true)) {
		return nil, fmt.Errorf("look which shards are where: %w", err)
	}
	return newRoutes(names, homes, fresh), err
}
