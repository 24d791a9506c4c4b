package sharded_test

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"
	"testing"

	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/storage/sharded"
	"github.com/taskengine/taskengine/task"
)

// commit commits a batch as the engine does: each row in the database that holds it, and again rows that
// are left out, or cannot be changed while their shards are moved.
func commit(ctx context.Context, s *sharded.Store, b *storage.Batch) (storage.Outcome, error) {
	out := storage.Outcome{Inserted: make([]storage.Inserted, len(b.Insert)), Swapped: make([]*task.Task, len(b.Swap))}
	left := make([]int, len(b.Insert)+len(b.Swap))
	for i := range left {
		left[i] = i
	}
	for ; len(left) > 0; runtime.Gosched() {
		lanes := make([][]int, s.Databases()+1)
		for _, i := range left {
			lane := s.DatabaseOf(idOf(b, i).Shard())
			lanes[lane] = append(lanes[lane], i)
		}
		again, errs := make([][]int, len(lanes)), make([]error, len(lanes))
		var wg sync.WaitGroup
		for lane, some := range lanes {
			if len(some) > 0 {
				wg.Go(func() { again[lane], errs[lane] = commitSome(ctx, s, lane, b, some, &out) })
			}
		}
		wg.Wait()
		if err := errors.Join(errs...); err != nil {
			return storage.Outcome{}, err
		}
		left = slices.Concat(again...)
		slices.Sort(left)
	}
	return out, nil
}

// commitSome commits some rows of a batch in one database, and returns which are to be committed
// again.
func commitSome(ctx context.Context, s *sharded.Store, lane int, b *storage.Batch, some []int, out *storage.Outcome) (again []int, err error) {
	part := &storage.Batch{}
	for _, i := range some {
		if k := i - len(b.Insert); k < 0 {
			part.Insert = append(part.Insert, b.Insert[i])
		} else {
			part.Swap, part.Remove = append(part.Swap, b.Swap[k]), append(part.Remove, b.Removes(k))
		}
	}
	done, err := s.CommitIn(ctx, lane, part).Wait()
	switch {
	case errors.Is(err, storage.ErrUnavailable) && errors.Is(err, storage.ErrUndone):
		return some, nil
	case err != nil:
		return nil, err
	}
	for k, i := range some {
		if _, isLeft := slices.BinarySearch(done.Elsewhere, k); isLeft {
			again = append(again, i)
		}
		if k < len(part.Insert) {
			out.Inserted[i] = done.Inserted[k]
		} else {
			out.Swapped[i-len(b.Insert)] = done.Swapped[k-len(part.Insert)]
		}
	}
	return again, nil
}

// idOf returns the ID of a row of a batch: first of Insert, then of Swap.
func idOf(b *storage.Batch, i int) task.ID {
	if i < len(b.Insert) {
		return b.Insert[i].ID
	}
	return b.Swap[i-len(b.Insert)].ID
}

// around is a backend that calls functions around the next commit.
type around struct {
	*backend
	before, after func() // nil for none
}

func (a *around) Commit(ctx context.Context, b *storage.Batch) storage.Commit {
	return storage.Later(func() (storage.Outcome, error) {
		call(&a.before)
		out, err := a.backend.Commit(ctx, b).Wait()
		call(&a.after)
		return out, err
	})
}

func (a *around) Swap(ctx context.Context, cs ...task.Change) ([]*task.Task, error) {
	now, err := a.backend.Swap(ctx, cs...)
	call(&a.after)
	return now, err
}

func call(fn *func()) {
	if now := *fn; now != nil {
		*fn = nil
		now()
	}
}

// openAround opens the store of two backends, a and b.
func openAround(t *testing.T) (s *sharded.Store, a *around, b *backend) {
	t.Helper()
	ps := backends(2)
	a = &around{backend: ps[0]}
	s, err := sharded.Open(t.Context(), []sharded.Database{{Name: "a", Store: a}, {Name: "b", Store: ps[1]}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return s, a, ps[1]
}

// expect fails the test unless a commit succeeded and left these rows out, and has made these
// changes.
func expect(t *testing.T, out storage.Outcome, err error, elsewhere []int, made ...bool) {
	t.Helper()
	if err != nil || !slices.Equal(out.Elsewhere, elsewhere) {
		t.Fatalf("left out are %v, want %v; %v", out.Elsewhere, elsewhere, err)
	}
	for i, want := range made {
		if got := out.Swapped[i] != nil; got != want {
			t.Errorf("change %d was made: %t", i, got)
		}
	}
}

// version fails the test unless a row is at this version; 0 is that there is none.
func version(t *testing.T, s *sharded.Store, of *task.Task, want uint64) {
	t.Helper()
	got, err := s.Get(t.Context(), of.ID)
	if err != nil && !errors.Is(err, task.ErrNotFound) {
		t.Fatal(err)
	}
	if got == nil {
		got = &task.Task{}
	}
	if got.Version != want {
		t.Errorf("the row of shard %d is at version %d, want %d", of.ID.Shard(), got.Version, want)
	}
}

func TestACommitInADatabaseIsOneCallOfIt(t *testing.T) {
	ps := backends(3)
	s := open(t, ps...)
	rows := put(t, s, 100, 101)
	for _, p := range ps {
		p.calls.Store(0)
		p.homes.Store(0)
	}
	b := mixture(rows, 102)
	out, err := s.CommitIn(t.Context(), s.DatabaseOf(100), b).Wait()
	expect(t, out, err, nil, true, true)
	if !out.Inserted[0].Created() {
		t.Errorf("%v is in the way", out.Inserted[0].Existing)
	}
	for i, want := range []int64{0, 3, 0} { // Update, Insert and Swap
		if got := ps[i].calls.Load(); got != want {
			t.Errorf("%s was called %d times, want %d", ps[i].name, got, want)
		}
		if n := ps[i].homes.Load(); n != 0 {
			t.Errorf("%s was asked for its shards %d times", ps[i].name, n)
		}
	}
	if got, err := s.Get(t.Context(), b.Insert[0].ID); err != nil || got.Seq != b.Insert[0].Seq || got.Seq == 0 {
		t.Errorf("got %v of number %d, %v", got, b.Insert[0].Seq, err)
	}
	if got, err := s.Get(t.Context(), rows[0].ID); err != nil || got.Seq != out.Swapped[0].Seq {
		t.Errorf("got %v of number %d, %v", got, out.Swapped[0].Seq, err)
	}
}

func TestTheDatabaseOfAShardIsWhereItIsOrNoneWhileItIsMoved(t *testing.T) {
	ps := backends(3)
	s := open(t, ps...)
	if n := s.Databases(); n != 3 {
		t.Fatalf("there are %d databases", n)
	}
	is := func(want int, why string) {
		t.Helper()
		if got := s.DatabaseOf(7); got != want {
			t.Fatalf("%s: shard 7 is in database %d, want %d", why, got, want)
		}
		if a, c := s.DatabaseOf(6), s.DatabaseOf(255); a != 0 || c != 2 {
			t.Fatalf("%s: shard 6 is in database %d and shard 255 in %d", why, a, c)
		}
	}
	is(0, "at first")
	of := put(t, s, 7)[0]
	move(t, ps[0], ps[1], shards(7, 7), func(next string) bool { return next != "deliver" })
	is(0, "before a commit was refused")
	out, err := s.CommitIn(t.Context(), 0, mixture([]*task.Task{of})).Wait()
	expect(t, out, err, []int{0}, false)
	is(3, "while it is moved")
	out, err = s.CommitIn(t.Context(), 3, mixture([]*task.Task{of})).Wait()
	fails(t, out, err, "the shards 7 are being moved to b; if that was interrupted, run the move again")
	is(3, "while it is moved")
	ps[1].settle(func(h *storage.Holdings) {
		if _, err := ps[1].rows.Insert(t.Context(), of); err != nil {
			t.Error(err)
		}
		h.Owned.Add(7)
	})
	is(3, "before another commit")
	out, err = s.CommitIn(t.Context(), 3, mixture([]*task.Task{of})).Wait()
	expect(t, out, err, []int{0}, false)
	is(1, "when it has arrived")
	out, err = s.CommitIn(t.Context(), 1, mixture([]*task.Task{of})).Wait()
	expect(t, out, err, nil, true)
}

func TestRowsOfShardsThatWereMovedAreLeftOutOfACommit(t *testing.T) {
	for name, c := range map[string]struct {
		until   string // the step before which the move is interrupted
		inserts []uint16
		left    []int
	}{
		"moved":                     {"", nil, []int{0, 2}},
		"moved, with inserts":       {"", []uint16{3, 5, 4}, []int{0, 2, 3, 5}},
		"leaving":                   {"pack", nil, []int{0, 2}},
		"leaving, with inserts":     {"pack", []uint16{5, 4, 6}, []int{1, 3, 5}},
		"on the way":                {"deliver", nil, []int{0, 2}},
		"on the way, with inserts":  {"deliver", []uint16{3}, []int{0, 1, 3}},
		"not forgotten by a":        {"forget", nil, []int{0, 2}},
		"all moved, inserts of one": {"", []uint16{4}, []int{0, 1, 3}},
	} {
		t.Run(name, func(t *testing.T) {
			ps := backends(2)
			s := open(t, ps...)
			rows := put(t, s, 3, 5, 4)
			move(t, ps[0], ps[1], shards(3, 4), func(next string) bool { return next != c.until })
			b := mixture(rows, c.inserts...)
			b.Remove[1] = true
			out, err := s.CommitIn(t.Context(), 0, b).Wait()
			expect(t, out, err, c.left, false, true, false)
			for i, shard := range c.inserts {
				if shard > 4 {
					version(t, s, b.Insert[i], 1)
				}
			}
			version(t, s, rows[1], 0)
			if c.until == "pack" || c.until == "deliver" {
				if a, b := s.DatabaseOf(3), s.DatabaseOf(4); a != 2 || b != 2 {
					t.Errorf("they are in the databases %d and %d", a, b)
				}
				return
			}
			rest := mixture([]*task.Task{rows[0], rows[2]})
			for i, shard := range c.inserts {
				if shard <= 4 {
					rest.Insert = append(rest.Insert, b.Insert[i])
				}
			}
			out, err = s.CommitIn(t.Context(), s.DatabaseOf(3), rest).Wait()
			expect(t, out, err, nil, true, true)
			for _, in := range out.Inserted {
				if !in.Created() {
					t.Errorf("%v is in the way: it was inserted before", in.Existing)
				}
			}
		})
	}
}

func TestACommitInADatabaseThatHoldsNothingOfItLeavesAllOut(t *testing.T) {
	ps := backends(2)
	s := open(t, ps...)
	b := mixture(nil, 1, 2)
	ps[1].calls.Store(0)
	out, err := s.CommitIn(t.Context(), 1, b).Wait()
	expect(t, out, err, []int{0, 1})
	if n := ps[1].calls.Load(); n != 1 { // the Update that is refused
		t.Errorf("b was called %d times", n)
	}
	version(t, s, b.Insert[0], 0)
}

func TestAShardThatLeavesBeforeItsCommitIsAnsweredMakesOnlyWhatWasNotDoneUnknown(t *testing.T) {
	for _, until := range []string{"pack", "deliver", "forget", ""} { // before which the move is interrupted
		t.Run(until, func(t *testing.T) {
			s, a, b := openAround(t)
			rows := put(t, s, 7, 7, 8)
			stale := put(t, s, 7, 8)
			if err := some(s.Swap(t.Context(), grab(stale[0]), grab(stale[1]))); err != nil {
				t.Fatal(err)
			}
			a.after = func() { move(t, a.backend, b, shards(7, 7), func(next string) bool { return next != until }) }
			out, err := s.CommitIn(t.Context(), 0, mixture([]*task.Task{rows[0], stale[0], rows[2], stale[1], rows[1]}, 7)).Wait()
			// The change of shard 7 that did nothing may be one for its next database. That of shard 8 is
			// stale, which another try finds out: the database has been part of a move.
			expect(t, out, err, []int{2, 4}, true, false, true, false, true)
			if got := s.DatabaseOf(7); until == "" && got != 1 || until == "deliver" && got != 2 {
				t.Errorf("shard 7 is in database %d", got)
			}
			out, err = s.CommitIn(t.Context(), 0, mixture(stale[1:])).Wait()
			expect(t, out, err, nil, false)
		})
	}
}

func TestAShardThatLeavesWhileTheRestOfABatchIsCommittedIsLeftOut(t *testing.T) {
	s, a, b := openAround(t)
	rows := put(t, s, 7, 8, 9)
	move(t, a.backend, b, shards(7, 7), nil)
	refused := 0
	a.before = func() { // the commit that is refused because of shard 7
		refused++
		a.before = func() { // the commit of the rest
			refused++
			move(t, a.backend, b, shards(8, 8), nil)
		}
	}
	out, err := s.CommitIn(t.Context(), 0, mixture(rows, 7, 8, 9)).Wait()
	expect(t, out, err, []int{0, 1, 3, 4}, false, false, true)
	if refused != 2 || s.DatabaseOf(7) != 1 || s.DatabaseOf(8) != 1 {
		t.Errorf("%d commits; the shards are in the databases %d and %d", refused, s.DatabaseOf(7), s.DatabaseOf(8))
	}
	if !out.Inserted[2].Created() {
		t.Errorf("%v is in the way", out.Inserted[2].Existing)
	}
	version(t, s, rows[1], 1)
}

func TestAShardThatWasAwayDuringACommitAndIsBackIsNotTakenForOneThatStayed(t *testing.T) {
	s, a, b := openAround(t)
	rows := put(t, s, 7, 7)
	away := func() {
		move(t, a.backend, b, shards(7, 7), nil) // which the store does not know of
		a.after = func() { move(t, b, a.backend, shards(7, 7), nil) }
	}
	away()
	out, err := s.CommitIn(t.Context(), 0, mixture(rows)).Wait()
	expect(t, out, err, []int{0, 1}, false, false)
	version(t, s, rows[0], 1)
	out, err = s.CommitIn(t.Context(), s.DatabaseOf(7), mixture(rows[:1])).Wait()
	expect(t, out, err, nil, true)
	away()
	if err := some(s.Swap(t.Context(), grab(rows[1]))); err != nil { // by the verb
		t.Error(err)
	}
}

func TestAStaleChangeIsNotLeftOutOfACommit(t *testing.T) {
	ps := backends(3)
	s := open(t, ps...)
	rows := put(t, s, 1, 2)
	move(t, ps[1], ps[2], shards(100, 100), nil) // another shard
	for _, p := range ps {
		p.homes.Store(0)
	}
	out, err := s.CommitIn(t.Context(), 0, mixture(rows[:1])).Wait()
	expect(t, out, err, nil, true)
	out, err = s.CommitIn(t.Context(), 0, mixture(rows)).Wait()
	expect(t, out, err, nil, false, true)
	if a, b, c := ps[0].homes.Load(), ps[1].homes.Load(), ps[2].homes.Load(); a != 1 || b != 0 || c != 0 {
		t.Errorf("the backends were asked for their shards %d, %d and %d times", a, b, c)
	}
}
