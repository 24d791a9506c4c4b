package sharded

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

// call is a call about n things, such as rows or changes, each of which belongs to a shard.
type call struct {
	n     int
	shard func(i int) uint16
	// do does some of the things in a database, in ascending order; nil is all of them. It may be
	// called for several databases at once. It returns the things for which the database found nothing
	// to do, which is an answer only if the database holds their shards.
	do func(ctx context.Context, database int, some []int) (unsure []int, err error)
}

// shards returns the shards of some of the things; nil is all of them.
func (c *call) shards(some []int) (shards task.Shards) {
	for _, i := range c.list(some) {
		shards.Add(c.shard(i))
	}
	return shards
}

func (c *call) list(some []int) []int {
	if some == nil {
		for i := range c.n {
			some = append(some, i)
		}
	}
	return some
}

// failure is the part of a call that was not done, as far as is known. The zero value is none.
type failure struct {
	shards task.Shards
	errs   []error
}

func (f *failure) add(shards task.Shards, err error) {
	f.shards = f.shards.With(&shards)
	f.errs = append(f.errs, err)
}

func (f *failure) merge(other *failure) {
	f.shards = f.shards.With(&other.shards)
	f.errs = append(f.errs, other.errs...)
}

func (f *failure) err() error {
	if len(f.errs) == 1 {
		return f.errs[0]
	}
	return errors.Join(f.errs...)
}

// rounds is how often route tries the things of a call at most.
const rounds = 3

// route does each of the things in the database that holds its shard.
func (s *Store) route(ctx context.Context, c *call) *failure {
	out := &failure{}
	known, some := s.routes.Load(), []int(nil)
	for round := 1; ; round++ {
		again := s.try(ctx, known, c, some, round == 1, out)
		if len(again) == 0 {
			return out
		}
		shards := c.shards(again)
		if round == rounds {
			out.add(shards, fmt.Errorf("the shards %s are moved over and over: %w", &shards, storage.ErrElsewhere))
			return out
		}
		fresh, err := s.look(ctx)
		if err != nil {
			out.add(shards, err)
			return out
		}
		known, some = fresh, again
	}
}

// try does some of the things in the databases that hold their shards, as far as is known. It returns the things to
// try again after the databases were asked: also things of shards that are nowhere, if that may be
// outdated.
func (s *Store) try(ctx context.Context, known *routes, c *call, some []int, outdated bool, out *failure) (again []int) {
	if database, ok := known.only(c, some); ok {
		return s.attempt(ctx, known, database, c, some, out)
	}
	parts, lost := make([][]int, len(s.databases)), []int(nil)
	for _, i := range c.list(some) {
		if database := known.of(c.shard(i)); database == nowhere {
			lost = append(lost, i)
		} else {
			parts[database] = append(parts[database], i)
		}
	}
	switch {
	case outdated:
		again = lost
	case len(lost) > 0:
		shards := c.shards(lost)
		out.add(shards, known.why(shards))
	}
	var databases []int
	for database, part := range parts {
		if len(part) > 0 {
			databases = append(databases, database)
		}
	}
	var mu sync.Mutex // guards again and out
	atOnce(databases, func(database int) {
		var f failure
		more := s.attempt(ctx, known, database, c, parts[database], &f)
		mu.Lock()
		defer mu.Unlock()
		again = append(again, more...)
		out.merge(&f)
	})
	slices.Sort(again)
	return again
}

// atOnce calls do for all of the databases concurrently, and waits for the calls.
func atOnce(databases []int, do func(database int)) {
	var wg sync.WaitGroup
	for i, database := range databases {
		if i == len(databases)-1 {
			do(database)
			break
		}
		wg.Go(func() { do(database) })
	}
	wg.Wait()
}

// only returns the database that holds all of the things, if one does.
func (r *routes) only(c *call, some []int) (database int, ok bool) {
	n := len(some)
	if some == nil {
		n = c.n
	}
	for k := range n {
		i := k
		if some != nil {
			i = some[k]
		}
		here := r.of(c.shard(i))
		if here == nowhere || k > 0 && here != database {
			return 0, false
		}
		database = here
	}
	return database, true
}

// attempt does some of the things in one database, and returns the things of shards that it does not hold, or
// may not have held all the time since known.
func (s *Store) attempt(ctx context.Context, known *routes, database int, c *call, some []int, out *failure) (again []int) {
	unsure, err := c.do(ctx, database, some)
	switch {
	case errors.Is(err, storage.ErrElsewhere):
		return c.list(some)
	case err != nil:
		out.add(c.shards(some), s.failed(database, err))
		return nil
	case len(unsure) == 0:
		return nil
	}
	held, err := s.heldSince(ctx, known, database)
	if err != nil {
		out.add(c.shards(unsure), s.failed(database, err))
		return nil
	}
	return slices.DeleteFunc(unsure, func(i int) bool { return held.Has(c.shard(i)) })
}
