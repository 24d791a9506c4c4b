package sharded_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/storage/sharded"
	"github.com/taskengine/taskengine/task"
)

var epoch = time.Date(2024, time.March, 1, 12, 0, 0, 0, time.UTC)

var ids = task.NewIDs([32]byte{3})

// row returns a new row of a shard.
func row(shard uint16) *task.Task {
	return &task.Task{
		ID: ids.NextIn(epoch, shard), Version: 1, State: task.Submitted, Type: "mail", Shard: shard,
		CreatedAt: epoch, ReadyAt: epoch, UpdatedAt: epoch, Payload: []byte("hello"),
	}
}

// put inserts new rows of these shards.
func put(t testing.TB, s *sharded.Store, of ...uint16) []*task.Task {
	t.Helper()
	var rows []*task.Task
	for _, shard := range of {
		rows = append(rows, row(shard))
	}
	done, err := s.Insert(t.Context(), rows...)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range done {
		if !d.Created() {
			t.Fatalf("%v is in the way", d.Existing)
		}
	}
	return rows
}

func grab(t *task.Task) task.Change {
	return task.Change{Ref: t.Ref(), To: task.Processing, At: epoch, Owner: task.ID{1}}
}

// mixture is a batch that swaps rows and inserts others.
func mixture(swap []*task.Task, insert ...uint16) *storage.Batch {
	b := &storage.Batch{}
	for _, t := range swap {
		b.Swap, b.Remove = append(b.Swap, grab(t)), append(b.Remove, false)
	}
	for _, shard := range insert {
		b.Insert = append(b.Insert, row(shard))
	}
	return b
}

// fails fails the test unless a batch has failed for this reason, and the outcome says nothing.
func fails(t *testing.T, out storage.Outcome, err error, cause string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), cause) {
		t.Fatalf("got %v, want an error that says %q", err, cause)
	}
	if out.Inserted != nil || out.Swapped != nil || out.Elsewhere != nil {
		t.Errorf("got %+v, %v", out, err)
	}
}

func TestABatchOfOnePlaceIsOneCallOfThatPlace(t *testing.T) {
	ps := backends(3)
	s := open(t, ps...)
	rows := put(t, s, 1, 2)
	for _, p := range ps {
		p.calls.Store(0)
		p.homes.Store(0)
	}
	if _, err := s.Commit(t.Context(), mixture(rows, 3)).Wait(); err != nil {
		t.Fatal(err)
	}
	for i, want := range []int64{3, 0, 0} { // Update, Insert and Swap
		if got := ps[i].calls.Load(); got != want {
			t.Errorf("%s was called %d times, want %d", ps[i].name, got, want)
		}
		if n := ps[i].homes.Load(); n != 0 {
			t.Errorf("%s was asked for its shards %d times", ps[i].name, n)
		}
	}
}

func TestAStaleChangeHasOnlyItsPlaceAskedWhatItHolds(t *testing.T) {
	ps := backends(3)
	s := open(t, ps...)
	rows := put(t, s, 1, 2)
	for _, p := range ps {
		p.homes.Store(0)
	}
	for range 2 { // the second time they are stale
		if _, err := s.Commit(t.Context(), mixture(rows)).Wait(); err != nil {
			t.Fatal(err)
		}
	}
	if a, b, c := ps[0].homes.Load(), ps[1].homes.Load(), ps[2].homes.Load(); a != 1 || b != 0 || c != 0 {
		t.Errorf("the backends were asked for their shards %d, %d and %d times", a, b, c)
	}
}

func TestABatchFailsIfAPlaceDoesAndTheOthersDoTheirParts(t *testing.T) {
	ps := backends(3)
	s := open(t, ps...)
	rows := put(t, s, 1, 100, 200, 2)
	ps[1].fail(errors.New("the network is down"))
	b := mixture(rows, 101, 3, 201)
	b.Remove[3] = true
	out, err := s.Commit(t.Context(), b).Wait()
	fails(t, out, err, "b: the network is down")
	ps[1].fail(nil)
	for i, in := range append(rows, b.Insert...) {
		got, err := s.Get(t.Context(), in.ID)
		switch shard := in.ID.Shard(); {
		case i == 3 || shard == 101: // it was removed, or not inserted
			if !errors.Is(err, task.ErrNotFound) {
				t.Errorf("shard %d: %v, %v", shard, got, err)
			}
		case err != nil:
			t.Errorf("shard %d: %v", shard, err)
		case (got.State == task.Processing) != (i < 4 && shard != 100) || got.Seq != in.Seq:
			t.Errorf("shard %d: %v, number %d of %d", shard, got.State, got.Seq, in.Seq)
		}
	}
}

func TestABatchThatFailsSaysWhyEachPlaceHasFailed(t *testing.T) {
	ps := backends(3)
	s := open(t, ps...)
	rows := put(t, s, 1, 100)
	one, two := errors.New("one"), errors.New("two")
	ps[0].fail(one)
	ps[1].fail(two)
	for _, b := range []*storage.Batch{mixture(rows), mixture(rows[:1])} {
		out, err := s.Commit(t.Context(), b).Wait()
		fails(t, out, err, "a: one")
		if !errors.Is(err, one) || errors.Is(err, two) != (len(b.Swap) == 2) {
			t.Errorf("got %v", err)
		}
	}
}

func TestAVerbFailsIfItsPartInOnePlaceDoes(t *testing.T) {
	ps := backends(2)
	s := open(t, ps...)
	rows := put(t, s, 1, 200)
	down := errors.New("down")
	ps[1].fail(down)
	for name, call := range map[string]func(ctx context.Context) error{
		"Insert": func(ctx context.Context) error { _, err := s.Insert(ctx, row(1), row(200)); return err },
		"Swap":   func(ctx context.Context) error { _, err := s.Swap(ctx, grab(rows[0]), grab(rows[1])); return err },
		"Note": func(ctx context.Context) error {
			_, err := s.Note(ctx, task.Note{Ref: rows[0].Ref()}, task.Note{Ref: rows[1].Ref()})
			return err
		},
		"Delete": func(ctx context.Context) error { _, err := s.Delete(ctx, rows[0].Ref(), rows[1].Ref()); return err },
		"Get":    func(ctx context.Context) error { _, err := s.Get(ctx, rows[1].ID); return err },
		"Update": func(ctx context.Context) error { return s.Update(ctx, func(storage.Tx) error { return nil }) },
		"Due":    func(ctx context.Context) error { _, err := s.Due(ctx, storage.DueQuery{}); return err },
		"Ready":  func(ctx context.Context) error { _, err := s.Ready(ctx, storage.ReadyQuery{}); return err },
		"Queues": func(ctx context.Context) error { _, err := s.Queues(ctx, task.Queue{}, 1); return err },
	} {
		if err := call(t.Context()); !errors.Is(err, down) || !strings.Contains(err.Error(), "b: down") {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func TestTheHooksOfATransactionWaitForAllPlaces(t *testing.T) {
	ps := backends(2)
	s := open(t, ps...)
	a, b := row(1), row(200)
	ran := false
	update := func() error {
		return s.Update(t.Context(), func(tx storage.Tx) error {
			tx.OnCommit(func() {
				ran = true
				for _, r := range []*task.Task{a, b} {
					if _, err := s.Get(t.Context(), r.ID); err != nil {
						t.Error(err)
					}
				}
			})
			_, err := tx.Insert(t.Context(), a, b)
			return err
		})
	}
	lost := errors.New("the commit was lost")
	ps[0].failCommit(lost)
	if err := update(); !errors.Is(err, lost) || ran {
		t.Fatalf("got %v; hooks ran: %t", err, ran)
	}
	ps[0].fail(nil)
	a, b = row(1), row(200)
	if err := update(); err != nil || !ran {
		t.Fatalf("got %v; hooks ran: %t", err, ran)
	}
}
