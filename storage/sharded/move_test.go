package sharded_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/storage/sharded"
	"github.com/taskengine/taskengine/task"
)

func TestWhoeverLooksForATaskFindsWhereItWasMoved(t *testing.T) {
	for name, look := range map[string]func(t *testing.T, s *sharded.Store, of *task.Task) error{
		"Get": func(t *testing.T, s *sharded.Store, of *task.Task) error {
			_, err := s.Get(t.Context(), of.ID)
			return err
		},
		"Insert": func(t *testing.T, s *sharded.Store, of *task.Task) error {
			put(t, s, of.ID.Shard(), 200)
			return nil
		},
		"Swap": func(t *testing.T, s *sharded.Store, of *task.Task) error {
			return some(s.Swap(t.Context(), grab(of)))
		},
		"Note": func(t *testing.T, s *sharded.Store, of *task.Task) error {
			now, err := s.Swap(t.Context(), grab(of))
			if err := some(now, err); err != nil {
				return err
			}
			return some(s.Note(t.Context(), task.Note{Ref: now[0].Ref(), Progress: &task.Progress{Done: 1}}))
		},
		"Delete": func(t *testing.T, s *sharded.Store, of *task.Task) error {
			return some(s.Delete(t.Context(), of.Ref()))
		},
		"Do": func(t *testing.T, s *sharded.Store, of *task.Task) error {
			out, err := s.Commit(t.Context(), mixture([]*task.Task{of})).Wait()
			return some(out.Swapped, err)
		},
		"Do that inserts": func(t *testing.T, s *sharded.Store, of *task.Task) error {
			out, err := s.Commit(t.Context(), mixture([]*task.Task{of}, of.ID.Shard(), 1, 200)).Wait()
			return some(out.Swapped, err)
		},
	} {
		t.Run(name, func(t *testing.T) {
			ps := backends(2)
			s := open(t, ps...)
			of := put(t, s, 7)[0]
			move(t, ps[0], ps[1], shards(7, 9), nil)
			if err := look(t, s, of); err != nil {
				t.Error(err)
			}
			ps[1].homes.Store(0)
			put(t, s, 7) // the store remembers the answer
			if n := ps[1].homes.Load(); n != 0 {
				t.Errorf("the backend was asked for its shards %d more times", n)
			}
		})
	}
}

// some fails unless all answers are as for an existing row.
func some[A comparable](answers []A, err error) error {
	var nope A
	if err == nil && slices.Contains(answers, nope) {
		err = errors.New("the row was not found")
	}
	return err
}

func TestTasksThatAreBeingMovedAreRefusedAndTheOthersAreNot(t *testing.T) {
	for _, step := range []string{"pack", "deliver"} { // before which the move is interrupted
		t.Run(step, func(t *testing.T) {
			ps := backends(2)
			s := open(t, ps...)
			rows := put(t, s, 3, 4, 10, 200)
			moving := shards(3, 4)
			move(t, ps[0], ps[1], moving, func(next string) bool { return next != step })
			out, err := s.Commit(t.Context(), mixture(rows, 3, 11, 201)).Wait()
			fails(t, out, err, "the shards 3-4 are being moved to b; if that was interrupted, run the move again")
			if !errors.Is(err, sharded.ErrMoving) {
				t.Errorf("%v is not ErrMoving", err)
			}
			for _, r := range rows[2:] {
				if got, err := s.Get(t.Context(), r.ID); err != nil || got.State != task.Processing {
					t.Errorf("shard %d: %v, %v", r.ID.Shard(), got, err)
				}
			}
			if _, err := s.Commit(t.Context(), mixture(rows[:2])).Wait(); !errors.Is(err, sharded.ErrMoving) {
				t.Errorf("a batch of these alone: %v", err)
			}
			if _, err := s.Insert(t.Context(), row(3), row(12)); !errors.Is(err, sharded.ErrMoving) {
				t.Errorf("an insert: %v", err)
			}
			// No answer says that a row does not exist while it is on its way.
			if _, err := s.Get(t.Context(), rows[0].ID); errors.Is(err, task.ErrNotFound) {
				t.Error(err)
			}
			if _, err := s.Delete(t.Context(), task.Ref{ID: row(4).ID, Version: 1}); !errors.Is(err, sharded.ErrMoving) {
				t.Errorf("a deletion: %v", err)
			}
			err = s.Update(t.Context(), func(tx storage.Tx) error {
				_, err := tx.Swap(t.Context(), grab(rows[0]))
				return err
			})
			if !errors.Is(err, sharded.ErrMoving) {
				t.Errorf("a transaction: %v", err)
			}
		})
	}
}

func TestATransactionDoesNotTakeAMoveForAStaleAnswer(t *testing.T) {
	ps := backends(2)
	s := open(t, ps...)
	rows := put(t, s, 3, 200)
	move(t, ps[0], ps[1], shards(3, 3), nil)
	update := func() (now []*task.Task, err error) {
		err = s.Update(t.Context(), func(tx storage.Tx) error {
			now, err = tx.Swap(t.Context(), grab(rows[0]))
			return nil // the transaction is dead all the same
		})
		return now, err
	}
	if _, err := update(); !errors.Is(err, storage.ErrElsewhere) {
		t.Fatalf("got %v", err)
	}
	if err := some(update()); err != nil {
		t.Errorf("the transaction that is made again: %v", err)
	}
}

func TestAPlaceThatDoesNotAnswerKeepsNobodyFromTheOthers(t *testing.T) {
	ps := backends(3)
	s := open(t, ps...)
	of := put(t, s, 7)[0]
	move(t, ps[0], ps[1], shards(7, 9), nil)
	ps[2].fail(errors.New("down"))
	if _, err := s.Get(t.Context(), of.ID); err != nil {
		t.Error(err)
	}
	out, err := s.Commit(t.Context(), mixture([]*task.Task{of}, 255)).Wait()
	fails(t, out, err, "c: down")
	if got, err := s.Get(t.Context(), of.ID); err != nil || got.State != task.Processing {
		t.Errorf("got %v, %v", got, err)
	}
}

func TestAPlaceThatDoesNotAnswerDoesNotHoldWhatAnotherSaysThatItHas(t *testing.T) {
	ps := backends(2)
	s := open(t, ps...)
	of := put(t, s, 7)[0]
	unknown := task.ID{15: 8} // no backend has it
	move(t, ps[0], ps[1], shards(7, 7), nil)
	if _, err := s.Get(t.Context(), of.ID); err != nil { // so that this much is known
		t.Fatal(err)
	}
	move(t, ps[1], ps[0], shards(7, 7), nil)
	move(t, ps[0], ps[1], shards(8, 8), nil)
	ps[1].failHome(errors.New("down"))
	if _, err := s.Get(t.Context(), unknown); err == nil || errors.Is(err, task.ErrNotFound) {
		t.Errorf("the shards of the other are not known: %v", err)
	}
	if _, err := s.Get(t.Context(), of.ID); err != nil {
		t.Error(err)
	}
}

func TestShardsWithoutAHolderAreReported(t *testing.T) {
	ps := backends(2)
	s := open(t, ps...)
	ps[1].settle(func(h *storage.Holdings) { h.Owned = shards(128, 250) })
	out, err := s.Commit(t.Context(), mixture(nil, 1, 251)).Wait()
	fails(t, out, err, "no database holds the shards 251; is one missing in storage.databases, or restored from an older backup?")
}

// afterAMove returns a store that does not know yet that one of its rows was moved, and the present backend of the
// row, which answers all callers.
func afterAMove(t *testing.T) (*sharded.Store, *waiting, *task.Task) {
	t.Helper()
	ps := backends(2)
	b := &waiting{ps[1], make(chan struct{})}
	close(b.asked)
	s, err := sharded.Open(t.Context(), []sharded.Database{{Name: "a", Store: ps[0]}, {Name: "b", Store: b}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	of := put(t, s, 7)[0]
	move(t, ps[0], ps[1], shards(7, 9), nil)
	return s, b, of
}

func TestACallThatIsCancelledDoesNotWaitForOthersWhoAsk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, b, of := afterAMove(t)
		b.asked = make(chan struct{}) // from now on it does not answer
		look := func(ctx context.Context) chan error {
			got := make(chan error, 1)
			go func() {
				_, err := s.Get(ctx, of.ID)
				got <- err
			}()
			synctest.Wait()
			return got
		}
		asks := look(t.Context())
		ctx, cancel := context.WithCancel(t.Context())
		waits := look(ctx)
		cancel()
		if err := <-waits; !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
		close(b.asked)
		if err := <-asks; err != nil {
			t.Error(err)
		}
	})
}

func TestOneAnswerOfThePlacesIsForAllWhoWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, b, of := afterAMove(t)
		b.asked = make(chan struct{})
		b.homes.Store(0)
		var wg sync.WaitGroup
		for range 10 {
			wg.Go(func() {
				if _, err := s.Get(t.Context(), of.ID); err != nil {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		close(b.asked)
		wg.Wait()
		// One asks, and one more for the callers that came when it had begun.
		if n := b.homes.Load(); n > 2 {
			t.Errorf("the backend was asked for its shards %d times", n)
		}
	})
}
