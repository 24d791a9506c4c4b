package engine_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

// shut is a store that can refuse all transactions.
type shut struct {
	storage.Store
	because atomic.Pointer[error] // why it is shut; nil while it is not
}

func (s *shut) Update(ctx context.Context, fn func(storage.Tx) error) error {
	if why := s.because.Load(); why != nil {
		return *why
	}
	return s.Store.Update(ctx, fn)
}

// Commit implements [storage.Store].
func (s *shut) Commit(ctx context.Context, b *storage.Batch) storage.Commit {
	return storage.CommitLaterIn(ctx, s.Update, b)
}

func (s *shut) shut(why error) { s.because.Store(&why) }
func (s *shut) open()          { s.because.Store(nil) }

// startShut opens an engine on a store that can be shut.
func startShut(t *testing.T, set policy.Set, handlers map[string]task.Handler) (*node, *shut) {
	t.Helper()
	n := start(t, set, handlers)
	n.close()
	s := &shut{Store: n.store}
	n.config.Store = s
	n.open()
	return n, s
}

func TestAnEngineOnAClosedStoreCanBeClosed(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		n, s := startShut(t, one("x", nil), handle("x", func(ctx context.Context, _ *task.Task) ([]byte, error) {
			<-ctx.Done()
			return nil, context.Cause(ctx)
		}))
		n.submit(engine.Request{Type: "x"})
		s.shut(storage.ErrClosed)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := n.Submit(ctx, engine.Request{Type: "x"}); !errors.Is(err, storage.ErrClosed) {
			t.Errorf("submit: %v, want that the store is closed", err)
		}
		if err := n.Close(ctx); !errors.Is(err, engine.ErrFailed) {
			t.Errorf("close: %v", err)
		}
		s.open()
		n.open()
	})
}

func TestAnOutageInWhichNoTransactionBeginsIsAnswered(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var j journal
		n, s := startShut(t, one("x", nil), handle("x", j.work(time.Minute)))
		id := n.submit(engine.Request{Type: "x", Payload: []byte("r")})
		s.shut(errNo)
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if _, err := n.Submit(ctx, engine.Request{Type: "x"}); !errors.Is(err, errNo) {
			t.Errorf("submit: %v", err)
		}
		if _, err := n.Cancel(ctx, task.Ref{ID: id}, ""); !errors.Is(err, errNo) {
			t.Errorf("cancel: %v", err)
		}
		time.Sleep(time.Hour)
		s.open()
		time.Sleep(time.Second)
		if got := n.expect(id, task.Done); string(got.Result) != "r" || len(j.payloads()) != 1 {
			t.Errorf("result %q after %d runs", got.Result, len(j.payloads()))
		}
	})
}

func TestClosingDuringAnOutageEndsAndTheTaskIsRecovered(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var j journal
		n, s := startShut(t, one("x", nil), handle("x", j.work(time.Minute)))
		id := n.submit(engine.Request{Type: "x"})
		s.shut(errNo)
		time.Sleep(2 * time.Minute)
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_ = n.Close(ctx)
		if took := time.Since(began); took > time.Minute {
			t.Errorf("it took %v", took)
		}
		s.open()
		n.open()
		if got := n.end(id); got.State != task.Done || got.Attempt != 2 {
			t.Errorf("%v at attempt %d", got.State, got.Attempt)
		}
	})
}

func TestWaitingForATaskEndsWhenTheEngineFails(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		n, s := startShut(t, one("x", nil), handle("x", func(context.Context, *task.Task) ([]byte, error) { return nil, nil }))
		id := n.submit(engine.Request{Type: "x", At: time.Now().Add(time.Minute)})
		s.shut(storage.ErrBroken)
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if err := n.WaitTasks(ctx, id); !errors.Is(err, engine.ErrFailed) {
			t.Errorf("wait: %v", err)
		}
		_ = n.Close(ctx)
		s.open()
		n.open()
	})
}

func TestALookAheadThatIsNoNumberOfTriggersIsRefused(t *testing.T) {
	for _, c := range []engine.Config{{LookAhead: -1}, {QueueLookAhead: -1}, {QueueLookAhead: 1}} {
		inBubble(t, func(t *testing.T) {
			n := start(t, one("x", nil), nil)
			c.Store = n.store
			if e, err := engine.Open(t.Context(), c); err == nil {
				t.Errorf("%d, %d were accepted", c.LookAhead, c.QueueLookAhead)
				_ = e.Close(t.Context())
			}
		})
	}
}

func TestATaskThatHasExpiredWhenItIsSubmittedDoesNotRun(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var j journal
		n := start(t, one("x", nil), handle("x", j.work(0)))
		got := n.end(n.submit(engine.Request{Type: "x", ExpiresAt: time.Now()}))
		if got.State != task.Error || len(j.payloads()) > 0 {
			t.Errorf("%v after %d runs", got.State, len(j.payloads()))
		}
	})
}

func TestAnIDThatIsAskedForTwiceAtOnceRunsOnce(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var j journal
		set := one("closed", func(p *policy.Type) { p.Paused = true })
		set.Types["open"] = policy.DefaultType()
		work := task.HandlerFunc(j.work(0))
		n := start(t, set, map[string]task.Handler{"closed": work, "open": work})
		id := task.ID{1}
		if _, err := n.Submit(t.Context(), engine.Request{ID: id, Type: "closed"}, engine.Request{ID: id, Type: "open"}); err != nil {
			t.Fatal(err)
		}
		if err := n.Unpause(t.Context(), "closed"); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if got := n.expect(id, task.Done); got.Type != "closed" || len(j.payloads()) != 1 {
			t.Errorf("a task of type %s was run, %d times", got.Type, len(j.payloads()))
		}
	})
}

func TestATimeThatNoStoreCanKeepIsAnErrorOfTheHandler(t *testing.T) {
	for _, at := range []time.Time{time.Date(12000, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(1, 1, 1, 0, 0, 1, 0, time.UTC), time.Unix(1<<60, 0)} {
		inBubble(t, func(t *testing.T) {
			n := start(t, one("x", nil), handle("x", func(context.Context, *task.Task) ([]byte, error) { return nil, task.Again(at) }))
			id := n.submit(engine.Request{Type: "x"})
			synctest.Wait()
			if got := n.expect(id, task.Error); got.LastError == "" {
				t.Error("it does not say why")
			}
		})
	}
}

func TestAResumedTaskHasItsTypesQueueTimeout(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		n := start(t, one("x", func(p *policy.Type) { p.Timeout.Queue, p.Paused = time.Minute, true }), handle("x", nil))
		id := n.submit(engine.Request{Type: "x", At: time.Now().Add(time.Hour)})
		if _, err := n.Resume(t.Context(), task.Ref{ID: id}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Minute)
		n.expect(id, task.Error)
	})
}
