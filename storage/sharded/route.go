package sharded

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/taskengine/taskengine/engine/task"
	"github.com/taskengine/taskengine/storage"
)

// call is what is asked of the places about n things, each of which is of a shard.
type call struct {
	n     int
	shard func(i int) uint16
	// do has a place do some of the things, in ascending order; nil is all of them. It may be
	// called for several places at once. It returns for which of them the place found nothing
	// to do: that is an answer only if the place holds their shards.
	do func(ctx context.Context, place int, some []int) (unsure []int, err error)
}

// shards returns those of some of the things; nil is all of them.
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

// failure is what of a call was not done, as far as is known; the zero value is nothing.
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

// rounds is how often the things of a call are looked for at most.
const rounds = 3

// route has each of the things done where its shard is.
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

// try has some of the things done where their shards are known to be, and returns those that
// are to be looked for anew. Those that are known to be nowhere are, if that may be outdated.
func (s *Store) try(ctx context.Context, known *routes, c *call, some []int, outdated bool, out *failure) (again []int) {
	if place, ok := known.only(c, some); ok {
		return s.attempt(ctx, place, c, some, out)
	}
	parts, lost := make([][]int, len(s.places)), []int(nil)
	for _, i := range c.list(some) {
		if place := known.of(c.shard(i)); place == nowhere {
			lost = append(lost, i)
		} else {
			parts[place] = append(parts[place], i)
		}
	}
	switch {
	case outdated:
		again = lost
	case len(lost) > 0:
		shards := c.shards(lost)
		out.add(shards, known.why(shards))
	}
	var places []int
	for place, part := range parts {
		if len(part) > 0 {
			places = append(places, place)
		}
	}
	var mu sync.Mutex // guards again and out
	atOnce(places, func(place int) {
		var f failure
		more := s.attempt(ctx, place, c, parts[place], &f)
		mu.Lock()
		defer mu.Unlock()
		again = append(again, more...)
		out.merge(&f)
	})
	slices.Sort(again)
	return again
}

// atOnce calls do for each of the places, for all at once, and returns when it has returned.
func atOnce(places []int, do func(place int)) {
	var wg sync.WaitGroup
	for i, place := range places {
		if i == len(places)-1 {
			do(place)
			break
		}
		wg.Go(func() { do(place) })
	}
	wg.Wait()
}

// only returns the place that holds all of the things, if one does.
func (r *routes) only(c *call, some []int) (place int, ok bool) {
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
		if here == nowhere || k > 0 && here != place {
			return 0, false
		}
		place = here
	}
	return place, true
}

// attempt has one place do some of the things, and returns those of shards that it does not
// hold.
func (s *Store) attempt(ctx context.Context, place int, c *call, some []int, out *failure) (again []int) {
	unsure, err := c.do(ctx, place, some)
	switch {
	case errors.Is(err, storage.ErrElsewhere):
		return c.list(some)
	case err != nil:
		out.add(c.shards(some), s.failed(place, err))
		return nil
	case len(unsure) == 0:
		return nil
	}
	home, err := s.places[place].Store.Holdings(ctx)
	if err != nil {
		out.add(c.shards(unsure), s.failed(place, err))
		return nil
	}
	return slices.DeleteFunc(unsure, func(i int) bool { return home.Owned.Has(c.shard(i)) })
}
