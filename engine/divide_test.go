package engine_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/storage/memory"
	"github.com/taskengine/taskengine/task"
)

var errRefused = errors.New("this row cannot be written")

// picky is a store that refuses every transaction that writes certain rows.
type picky struct {
	storage.Store

	mu       sync.Mutex
	inserts  func(*task.Task) bool  // guarded by mu: which are refused; nil for none
	swaps    func(task.Change) bool // guarded by mu: likewise
	away     bool                   // guarded by mu: everything is refused
	updates  int                    // guarded by mu: transactions so far
	refusals int                    // guarded by mu: failed ones
	grabs    int                    // guarded by mu: requested grabs
	largest  int                    // guarded by mu: the bytes of results in one transaction
}

func (s *picky) set(fn func(*picky)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fn(s)
}

func (s *picky) Update(ctx context.Context, fn func(storage.Tx) error) error {
	err := errRefused
	s.mu.Lock()
	away := s.away
	s.mu.Unlock()
	if !away {
		err = s.Store.Update(ctx, func(tx storage.Tx) error { return fn(&pickyTx{tx, s}) })
	}
	s.set(func(s *picky) {
		if s.updates++; errors.Is(err, errRefused) {
			s.refusals++
		}
	})
	return err
}

// Commit implements [storage.Store].
func (s *picky) Commit(ctx context.Context, b *storage.Batch) storage.Commit {
	return storage.CommitLaterIn(ctx, s.Update, b)
}

func (s *picky) Swap(ctx context.Context, cs ...task.Change) (out []*task.Task, err error) {
	err = s.Update(ctx, func(tx storage.Tx) (err error) {
		out, err = tx.Swap(ctx, cs...)
		return err
	})
	return out, err
}

type pickyTx struct {
	storage.Tx
	store *picky
}

func (x *pickyTx) Insert(ctx context.Context, ts ...*task.Task) ([]storage.Inserted, error) {
	x.store.mu.Lock()
	defer x.store.mu.Unlock()
	for _, t := range ts {
		if x.store.inserts != nil && x.store.inserts(t) {
			return nil, errRefused
		}
	}
	return x.Tx.Insert(ctx, ts...)
}

func (x *pickyTx) Swap(ctx context.Context, cs ...task.Change) ([]*task.Task, error) {
	x.store.mu.Lock()
	defer x.store.mu.Unlock()
	bytes, refused := 0, false
	for _, c := range cs {
		bytes += len(c.Result)
		if c.To == task.Processing {
			x.store.grabs++
		}
		refused = refused || x.store.swaps != nil && x.store.swaps(c)
	}
	if refused {
		return nil, errRefused
	}
	x.store.largest = max(x.store.largest, bytes)
	return x.Tx.Swap(ctx, cs...)
}

func startPicky(t *testing.T, set policy.Set, handlers map[string]task.Handler) (*node, *picky) {
	t.Helper()
	s := &picky{Store: memory.New()}
	n := &node{t: t, store: s, config: engine.Config{Store: s, Policies: set, Handlers: handlers}}
	n.open()
	t.Cleanup(n.close)
	return n, s
}

// submitMany submits many tasks at once. It returns the ids of tasks and the errors.
func (n *node) submitMany(typ string, many int) (ids []task.ID, errs []error) {
	var all sync.WaitGroup
	var mu sync.Mutex
	for i := range many {
		all.Go(func() {
			receipts, err := n.Submit(context.Background(), engine.Request{Type: typ, Payload: fmt.Append(nil, i)})
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				errs = append(errs, err)
			} else {
				ids = append(ids, receipts[0].ID)
			}
		})
	}
	all.Wait()
	return ids, errs
}

func TestAResultThatCannotBeWrittenHoldsUpNothingElse(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		n, s := startPicky(t, one("x", nil), handle("x", func(_ context.Context, t *task.Task) ([]byte, error) { return t.Payload, nil }))
		s.set(func(s *picky) { s.swaps = func(c task.Change) bool { return string(c.Result) == "bad" } })
		bad := n.submit(engine.Request{Type: "x", Payload: []byte("bad")})
		for range 6 {
			ids, errs := n.submitMany("x", 100)
			if len(errs) > 0 {
				t.Fatalf("%d submits of 100 failed: %v", len(errs), errs[0])
			}
			for _, id := range ids {
				n.end(id)
				n.expect(id, task.Done)
			}
		}
		n.expect(bad, task.Processing)
		_, reasons, err := n.Why(t.Context(), bad)
		if err != nil || reasons[0].Code != engine.CodeUnwritten || !strings.Contains(reasons[0].Text, errRefused.Error()) {
			t.Errorf("it stands still because of %+v, %v", reasons, err)
		}
		if got := n.Stats(); got.Stuck != 1 || got.Refused == 0 {
			t.Errorf("%d are stuck and %d writes were refused", got.Stuck, got.Refused)
		}
		var before int
		s.set(func(s *picky) { before = s.refusals })
		for range 60 { // with other writes in between
			time.Sleep(time.Minute)
			n.end(n.submit(engine.Request{Type: "x"}))
		}
		s.set(func(s *picky) {
			if tries := s.refusals - before; tries > 100 {
				t.Errorf("it was tried %d times in an hour", tries)
			}
			s.swaps = nil
		})
		time.Sleep(2 * time.Minute)
		if got := n.expect(bad, task.Done); string(got.Result) != "bad" || got.Attempt != 1 {
			t.Errorf("result %q at attempt %d", got.Result, got.Attempt)
		}
		if got := n.Stats(); got.Stuck != 0 {
			t.Errorf("%d are stuck", got.Stuck)
		}
	})
}

func TestOfABatchOnlyWhatCannotBeWrittenFails(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var j journal
		n, s := startPicky(t, one("x", nil), handle("x", j.work(0)))
		s.set(func(s *picky) { s.inserts = func(t *task.Task) bool { return len(t.Payload) == 1 } }) // ten of them
		ids, errs := n.submitMany("x", 500)
		if len(errs) != 10 || len(ids) != 490 {
			t.Errorf("%d submits failed and %d did not", len(errs), len(ids))
		}
		for _, err := range errs {
			if !errors.Is(err, errRefused) {
				t.Errorf("one failed because of %v", err)
			}
		}
		for _, id := range ids {
			n.end(id)
		}
		if len(j.payloads()) != 490 {
			t.Errorf("%d ran", len(j.payloads()))
		}
	})
}

func TestATaskThatCannotBeStartedHoldsUpNothingElse(t *testing.T) {
	for _, relaxed := range []bool{false, true} {
		inBubble(t, func(t *testing.T) {
			var j journal
			set := one("x", func(p *policy.Type) { p.Paused, p.Relaxed = true, relaxed })
			n, s := startPicky(t, set, handle("x", j.work(0)))
			ids, _ := n.submitMany("x", 200)
			bad := ids[17]
			s.set(func(s *picky) { s.swaps = func(c task.Change) bool { return c.ID == bad } })
			if err := n.Unpause(t.Context(), "x"); err != nil {
				t.Fatal(err)
			}
			for _, id := range ids {
				if id != bad {
					n.end(id)
				}
			}
			var before int
			s.set(func(s *picky) { before = s.refusals })
			time.Sleep(time.Hour)
			if _, err := n.Cancel(t.Context(), task.Ref{ID: bad}, ""); !errors.Is(err, errRefused) {
				t.Errorf("cancel: %v", err)
			}
			_, reasons, err := n.Why(t.Context(), bad)
			if err != nil || reasons[0].Code != engine.CodeUnwritten {
				t.Errorf("it stands still because of %+v, %v", reasons, err)
			}
			s.set(func(s *picky) {
				if tries := s.refusals - before; tries > 100 {
					t.Errorf("it was tried %d times in an hour", tries)
				}
				s.swaps = nil
			})
			n.end(bad)
			if n.expect(bad, task.Done); len(j.payloads()) != 200 {
				t.Errorf("%d ran", len(j.payloads()))
			}
		})
	}
}

// In an outage the engine writes little. Afterwards all tasks run.
func TestInAnOutageHardlyAnythingIsGrabbed(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var j journal
		set := one("x", func(p *policy.Type) { p.Paused = true })
		n, s := startPicky(t, set, handle("x", j.work(0)))
		ids, _ := n.submitMany("x", 2000)
		s.set(func(s *picky) { s.away, s.updates = true, 0 })
		if err := n.Unpause(t.Context(), "x"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Minute)
		s.set(func(s *picky) {
			if s.updates > 6000 || s.grabs > 0 {
				t.Errorf("%d transactions and %d grabs were tried in ten minutes", s.updates, s.grabs)
			}
			s.away = false
		})
		for _, id := range ids {
			n.end(id)
		}
		if len(j.payloads()) != 2000 {
			t.Errorf("%d ran", len(j.payloads()))
		}
	})
}

func TestABatchIsBoundedInBytes(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		n, s := startPicky(t, one("x", nil), handle("x", func(ctx context.Context, _ *task.Task) ([]byte, error) {
			time.Sleep(time.Minute)
			return make([]byte, 1<<20), nil
		}))
		ids, _ := n.submitMany("x", 40)
		s.set(func(s *picky) { s.away = true })
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		s.set(func(s *picky) { s.away = false })
		for _, id := range ids {
			n.end(id)
			n.expect(id, task.Done)
		}
		s.set(func(s *picky) {
			if s.largest > 16<<20 {
				t.Errorf("a transaction had %d bytes of results", s.largest)
			}
		})
	})
}

// The store commits a batch and returns an error, also while the batch is divided.
func TestWhatWasWrittenAndDeniedWhileABatchWasDividedHappensOnce(t *testing.T) {
	for seed := range 20 {
		inBubble(t, func(t *testing.T) {
			var j journal
			n, s := startLossy(t, one("x", nil), handle("x", j.work(time.Second)))
			calls := 0
			s.answer(func(int, int) bool {
				calls++
				return calls < 60 && (calls*(seed+3)/2+seed)%3 != 0
			}, nil)
			ids, errs := n.submitMany("x", 100)
			time.Sleep(5 * time.Minute)
			if got := len(j.payloads()); got < len(ids) || got > 100 || len(ids)+len(errs) != 100 {
				t.Errorf("%d ran of %d that were accepted and %d that were not", got, len(ids), len(errs))
			}
			seen := make(map[string]bool)
			for _, p := range j.payloads() {
				if seen[p] {
					t.Errorf("task %s ran twice", p)
				}
				seen[p] = true
			}
			for _, id := range ids {
				n.expect(id, task.Done)
			}
		})
	}
}

func TestATaskOfADeadProcessThatCannotBeWrittenHoldsUpNoOther(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var j journal
		n, s := startPicky(t, one("x", nil), handle("x", j.work(0)))
		var ids []task.ID
		for range 20 {
			id := n.submit(engine.Request{Type: "x", At: time.Now().Add(time.Hour)})
			grabBehind(t, n, id)
			ids = append(ids, id)
		}
		n.close()
		bad := ids[7]
		s.set(func(s *picky) { s.swaps = func(c task.Change) bool { return c.ID == bad } })
		n.open()
		for _, id := range ids {
			if id != bad {
				n.end(id)
			}
		}
		n.expect(bad, task.Processing)
		s.set(func(s *picky) { s.swaps = nil })
		time.Sleep(2 * time.Minute)
		n.expect(bad, task.Done)
	})
}

func TestATaskThatHasExpiredDoesNotStartThoughItIsFoundLate(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var j journal
		n, s := startLossy(t, one("x", func(p *policy.Type) { p.Timeout.Queue, p.Concurrency = 500*time.Millisecond, 1 }), handle("x", j.work(800*time.Millisecond)))
		n.submit(engine.Request{Type: "x"}) // it ends when the other has timed out, and before the engine checks that one
		id := task.ID{1}
		s.answer(func(inserted, _ int) bool { return inserted > 0 }, nil)
		if _, err := n.Submit(t.Context(), engine.Request{ID: id, Type: "x"}); err == nil {
			t.Fatal("the answer was not lost")
		}
		s.answer(nil, nil)
		time.Sleep(time.Minute) // the engine checks it after a second
		if n.expect(id, task.Error); len(j.payloads()) != 1 {
			t.Errorf("it ran %d times", len(j.payloads())-1)
		}
	})
}

func TestATaskAddedInATransactionWithALostAnswerRuns(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var j journal
		n, s := startLossy(t, one("x", nil), handle("x", j.work(0)))
		s.answer(func(inserted, _ int) bool { return inserted > 0 }, nil)
		var id task.ID
		err := n.store.(*lossy).Store.Update(t.Context(), func(tx storage.Tx) error {
			receipts, err := n.SubmitTx(t.Context(), quiet{tx}, engine.Request{Type: "x"})
			if err == nil {
				id = receipts[0].ID
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		s.answer(nil, nil)
		n.end(id)
		n.expect(id, task.Done)
	})
}

// quiet is a transaction that does not call OnCommit functions.
type quiet struct{ storage.Tx }

func (quiet) OnCommit(func()) {}
