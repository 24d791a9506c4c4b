package sharded_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/storage/sharded"
	"github.com/taskengine/taskengine/storage/storagetest"
	"github.com/taskengine/taskengine/task"
)

func TestACommitOfShardsThatNoDatabaseHoldsFailsUntilOneOfThemIsHeld(t *testing.T) {
	ps := backends(2)
	s := open(t, ps...)
	rows := put(t, s, 3, 4)
	stop := "deliver"
	move(t, ps[0], ps[1], shards(3, 3), func(next string) bool { return next != stop })
	out, err := s.CommitIn(t.Context(), 2, mixture(rows, 3, 200)).Wait()
	expect(t, out, err, []int{0, 1, 2, 3}, false, false) // some are somewhere
	for _, b := range []*storage.Batch{mixture(rows[:1]), mixture(nil, 3), {}} {
		out, err := s.CommitIn(t.Context(), 2, b).Wait()
		fails(t, out, err, "the shards 3 are being moved to b")
		if !errors.Is(err, storage.ErrUnavailable) || !errors.Is(err, storage.ErrUndone) || !errors.Is(err, sharded.ErrMoving) {
			t.Errorf("got %v", err)
		}
	}
	ps[1].settle(func(h *storage.Holdings) { h.Owned.Add(3) })
	for _, b := range []*storage.Batch{mixture(nil, 3), {}} {
		out, err := s.CommitIn(t.Context(), 2, b).Wait()
		expect(t, out, err, []int{0}[:len(b.Insert)])
	}
	ps[1].settle(func(h *storage.Holdings) { h.Owned = shards(128, 250) })
	out, err = s.CommitIn(t.Context(), 2, mixture(nil, 251)).Wait()
	fails(t, out, err, "no database holds the shards 251; is one missing in storage.databases, or restored from an older backup?")
	if !errors.Is(err, storage.ErrUnavailable) || !errors.Is(err, storage.ErrUndone) {
		t.Errorf("got %v", err)
	}
}

func TestAPlaceThatDoesNotAnswerKeepsNoOtherFromCommitting(t *testing.T) {
	for name, stop := range map[string]func(c *waiting){
		"it fails":    func(c *waiting) { c.fail(errors.New("down")) },
		"it says not": func(c *waiting) { c.asked = make(chan struct{}) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ps := backends(3)
				c := &waiting{ps[2], make(chan struct{})}
				close(c.asked)
				s, err := sharded.Open(t.Context(), []sharded.Database{{Name: "a", Store: ps[0]}, {Name: "b", Store: ps[1]}, {Name: "c", Store: c}}, nil)
				if err != nil {
					t.Fatal(err)
				}
				rows := put(t, s, 7, 8, 9)
				move(t, ps[0], ps[1], shards(7, 7), nil)
				move(t, ps[0], ps[1], shards(8, 8), func(next string) bool { return next != "deliver" })
				stop(c)
				begin := time.Now()
				out, err := s.CommitIn(t.Context(), 0, mixture(rows, 10)).Wait()
				expect(t, out, err, []int{1, 2}, false, false, true)
				if a, b := s.DatabaseOf(7), s.DatabaseOf(8); a != 1 || b != 3 {
					t.Errorf("the shards are in the databases %d and %d", a, b)
				}
				out, err = s.CommitIn(t.Context(), 1, mixture(rows[:1])).Wait()
				expect(t, out, err, nil, true)
				out, err = s.CommitIn(t.Context(), 3, mixture(rows[1:2])).Wait()
				fails(t, out, err, "the shards 8 are being moved to b")
				if took := time.Since(begin); took > 10*time.Second {
					t.Errorf("it took %s", took)
				}
			})
		})
	}
}

func TestAPlaceThatDoesNotSayWhatItHoldsHasDoneWhatItHasDone(t *testing.T) {
	ps := backends(2)
	s := open(t, ps...)
	rows := put(t, s, 1, 2)
	if err := some(s.Swap(t.Context(), grab(rows[0]))); err != nil {
		t.Fatal(err)
	}
	ps[0].failHome(errors.New("down"))
	out, err := s.CommitIn(t.Context(), 0, mixture(rows, 3)).Wait()
	expect(t, out, err, []int{1}, false, true)
	if !out.Inserted[0].Created() {
		t.Errorf("%v is in the way", out.Inserted[0].Existing)
	}
	out, err = s.CommitIn(t.Context(), 0, mixture(nil, 3, 200)).Wait()
	fails(t, out, err, "a: ")
	if !errors.Is(err, storage.ErrUndone) {
		t.Errorf("it is not known that nothing was done: %v", err)
	}
	ps[0].fail(nil)
	out, err = s.CommitIn(t.Context(), 0, mixture(rows[:1])).Wait()
	expect(t, out, err, nil, false)
}

func TestACommitThatFailsSaysWhereAndWhetherAnythingWasDone(t *testing.T) {
	ps := backends(2)
	s := open(t, ps...)
	lost := errors.New("the answer was lost")
	ps[1].failCommit(lost)
	b := mixture(nil, 200)
	out, err := s.CommitIn(t.Context(), 1, b).Wait()
	fails(t, out, err, "b: the answer was lost")
	if !errors.Is(err, lost) || errors.Is(err, storage.ErrUndone) {
		t.Errorf("got %v", err)
	}
	ps[1].fail(nil)
	version(t, s, b.Insert[0], 1)
	ps[1].fault.Store(new(func(c storagetest.Call) (f storagetest.Fault) {
		if c == storagetest.Swap {
			f.Before = errors.New("it is refused")
		}
		return f
	}))
	out, err = s.CommitIn(t.Context(), 1, mixture(b.Insert)).Wait()
	fails(t, out, err, "b: it is refused")
	if !errors.Is(err, storage.ErrUndone) {
		t.Errorf("got %v", err)
	}
}

// contradictory is a backend that refuses rows of shards which it says that it holds.
type contradictory struct{ *backend }

func (c contradictory) Commit(context.Context, *storage.Batch) storage.Commit {
	return storage.Committed(storage.Outcome{}, storage.ErrElsewhere)
}

func TestAPlaceThatRefusesWhatItSaysThatItHoldsDoesNotAnswer(t *testing.T) {
	ps := backends(2)
	s, err := sharded.Open(t.Context(), []sharded.Database{{Name: "a", Store: contradictory{ps[0]}}, {Name: "b", Store: ps[1]}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	out, err := s.CommitIn(t.Context(), 0, mixture(nil, 7)).Wait()
	fails(t, out, err, "shards are moved over and over")
	if !errors.Is(err, storage.ErrUnavailable) || !errors.Is(err, storage.ErrUndone) {
		t.Errorf("got %v", err)
	}
}

func TestTheNotesOfACommitAreWrittenWhereTheirRowsAre(t *testing.T) {
	for _, until := range []string{"pack", ""} { // before which the move is interrupted
		ps := backends(2)
		s := open(t, ps...)
		running, err := s.Swap(t.Context(), grab(put(t, s, 7)[0]), grab(put(t, s, 8)[0]))
		if err := some(running, err); err != nil {
			t.Fatal(err)
		}
		move(t, ps[0], ps[1], shards(7, 7), func(next string) bool { return next != until })
		b := &storage.Batch{}
		for _, r := range running {
			b.Notes = append(b.Notes, task.Note{Ref: r.Ref(), Progress: &task.Progress{Done: 3}})
			b.Swap = append(b.Swap, task.Change{Ref: r.Ref(), To: task.Waiting, At: epoch, Outcome: task.Snoozed})
		}
		out, err := s.CommitIn(t.Context(), 0, b).Wait()
		expect(t, out, err, []int{0}, false, true)
		if out.Lost != nil {
			t.Errorf("notes are lost: %v", out.Lost)
		}
		got, err := s.Get(t.Context(), running[1].ID)
		if err != nil || got.Progress().Done != 3 {
			t.Errorf("got %+v, %v", got, err)
		}
	}
}
