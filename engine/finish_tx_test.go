package engine_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/storage/memory"
	"github.com/taskengine/taskengine/task"
)

// books is the type of rows that stand for business data, which shares its transactions with
// the tasks. It has no handler. Each payment adds a row.
const books = "payment"

// pay makes a payment and finishes the task, in one transaction of store.
func pay(ctx context.Context, e *engine.Engine, store storage.Store, result string) error {
	return store.Update(ctx, func(tx storage.Tx) error {
		if _, err := e.SubmitTx(ctx, tx, engine.Request{Type: books}); err != nil {
			return err
		}
		return engine.FinishTx(ctx, tx, []byte(result))
	})
}

// paid returns how many payments were made.
func (n *node) paid() (payments int64) {
	n.t.Helper()
	counts, err := n.Count(n.t.Context(), storage.Filter{Types: []string{books}})
	if err != nil {
		n.t.Fatal(err)
	}
	for _, c := range counts {
		payments += c
	}
	return payments
}

// hookless is a store that never calls OnCommit functions, as when the answer to a commit is
// lost.
type hookless struct{ storage.Store }

type hooklessTx struct{ storage.Tx }

func (hooklessTx) OnCommit(func()) {}

func (s hookless) Update(ctx context.Context, fn func(storage.Tx) error) error {
	return s.Store.Update(ctx, func(tx storage.Tx) error { return fn(hooklessTx{tx}) })
}

// The transaction commits: whatever the handler returns, the task is done once.
func TestATaskFinishedInATransactionIsDoneWhateverItsHandlerReturns(t *testing.T) {
	for name, c := range map[string]struct {
		err    error
		silent bool // OnCommit functions are not called
		kept   time.Duration
	}{
		"nothing":                     {kept: time.Hour},
		"an error":                    {kept: time.Hour, err: errNo},
		"that it runs again":          {kept: time.Hour, err: task.Again(time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC))},
		"nothing, of a task not kept": {},
		"nothing, and nothing says that it has committed":                     {kept: time.Hour, silent: true},
		"an error, and nothing says that it has committed":                    {kept: time.Hour, silent: true, err: errNo},
		"nothing, of a task not kept, and nothing says that it has committed": {silent: true},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				var n *node
				saved := 0
				store := memory.New()
				calls := 0
				n = &node{t: t, store: store, config: engine.Config{
					Store:    store,
					Policies: one("pay", func(p *policy.Type) { p.Concurrency, p.Retention.Done = 1, c.kept }),
					Observer: engine.Observer{Saved: func(_ time.Time, _ task.Ref, t *task.Task) {
						if t != nil && t.State == task.Done {
							saved++
						}
					}},
				}}
				n.config.Handlers = handle("pay", func(ctx context.Context, _ *task.Task) ([]byte, error) {
					var in storage.Store = store
					if c.silent {
						in = hookless{store}
					}
					calls++
					if err := pay(ctx, n.Engine, in, "paid"); err != nil {
						t.Error(err)
					}
					return []byte("ignored"), c.err
				})
				n.open()
				t.Cleanup(n.close)
				id := n.submit(engine.Request{Type: "pay"})
				if err := n.WaitTasks(t.Context(), id); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Minute)
				if c.kept > 0 {
					if got := n.expect(id, task.Done); string(got.Result) != "paid" || got.Attempt != 1 {
						t.Errorf("got %+v", got)
					}
				} else if _, err := n.Get(t.Context(), id); !errors.Is(err, task.ErrNotFound) {
					t.Errorf("the task is still there: %v", err)
				}
				if s := n.Stats(); calls != 1 || n.paid() != 1 || saved != 1 || s.Stale != 0 || s.Running != 0 {
					t.Errorf("%d calls made %d payments, %d were noticed; %+v", calls, n.paid(), saved, s)
				}
			})
		})
	}
}

// The transaction is rolled back: the result of the handler counts.
func TestATaskOfATransactionThatWasRolledBackIsNotFinished(t *testing.T) {
	for name, c := range map[string]struct {
		err   error
		calls int
	}{
		"and its handler returns nothing":  {nil, 1},
		"and its handler returns an error": {errNo, 2},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				var n *node
				calls := 0
				n = start(t, one("pay", nil), handle("pay", func(ctx context.Context, _ *task.Task) ([]byte, error) {
					calls++
					if calls > 1 {
						return nil, pay(ctx, n.Engine, n.store, "paid")
					}
					err := n.store.Update(ctx, func(tx storage.Tx) error {
						return errors.Join(engine.FinishTx(ctx, tx, []byte("never")), errDeclined)
					})
					if !errors.Is(err, errDeclined) || errors.Is(err, engine.ErrAttemptOver) {
						t.Errorf("got %v", err)
					}
					return []byte("returned"), c.err
				}))
				id := n.submit(engine.Request{Type: "pay"})
				got := n.end(id)
				want := "returned"
				if c.err != nil {
					want = "paid"
				}
				if got.State != task.Done || string(got.Result) != want || calls != c.calls || n.paid() != int64(calls-1) || n.Stats().Stale != 0 {
					t.Errorf("after %d calls and %d payments it is %v with %q; %+v", calls, n.paid(), got.State, got.Result, n.Stats())
				}
			})
		})
	}
}

var errDeclined = errors.New("declined")

func TestATransactionThatFailedCanBeMadeAgain(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var n *node
		n = start(t, one("pay", nil), handle("pay", func(ctx context.Context, _ *task.Task) ([]byte, error) {
			_ = n.store.Update(ctx, func(tx storage.Tx) error {
				return errors.Join(engine.FinishTx(ctx, tx, nil), errDeclined)
			})
			return nil, pay(ctx, n.Engine, n.store, "paid")
		}))
		if got := n.end(n.submit(engine.Request{Type: "pay"})); string(got.Result) != "paid" || n.paid() != 1 {
			t.Errorf("got %+v and %d payments", got, n.paid())
		}
	})
}

// Another change of the task came first: the business change is rolled back.
func TestAnAttemptThatIsOverFinishesNothing(t *testing.T) {
	for name, over := range map[string]func(n *node, id task.ID){
		"because it was cancelled": func(n *node, id task.ID) {
			if _, err := n.Cancel(n.t.Context(), task.Ref{ID: id}, "no longer wanted"); err != nil {
				n.t.Error(err)
			}
		},
		"because it took too long": func(*node, task.ID) { time.Sleep(2 * time.Minute) },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				var n *node
				began, go1 := make(chan task.ID, 2), make(chan struct{})
				set := one("pay", func(p *policy.Type) { p.Timeout.Run, p.Timeout.Grace, p.Retry.Max = time.Minute, time.Second, 1 })
				n = start(t, set, handle("pay", func(ctx context.Context, tk *task.Task) ([]byte, error) {
					began <- tk.ID
					<-go1
					err := pay(context.WithoutCancel(ctx), n.Engine, n.store, "paid")
					if !errors.Is(err, engine.ErrAttemptOver) {
						t.Errorf("got %v", err)
					}
					return nil, err
				}))
				id := n.submit(engine.Request{Type: "pay"})
				over(n, <-began)
				close(go1)
				time.Sleep(time.Minute)
				if got := n.get(id); got.State == task.Done || n.paid() != 0 || n.Stats().Running != 0 {
					t.Errorf("it is %v, with %d payments; %+v", got.State, n.paid(), n.Stats())
				}
			})
		})
	}
}

// A handler that goes on after the commit keeps its slot, is stopped in time, and its task
// stays done.
func TestAHandlerThatLingersAfterItsTransactionChangesNothing(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var n *node
		set := one("pay", func(p *policy.Type) { p.Timeout.Run, p.Timeout.Grace, p.Concurrency = time.Minute, time.Second, 1 })
		stopped, release := make(chan error, 1), make(chan struct{})
		n = start(t, set, handle("pay", func(ctx context.Context, _ *task.Task) ([]byte, error) {
			err := pay(ctx, n.Engine, n.store, "paid")
			<-ctx.Done()
			stopped <- context.Cause(ctx)
			<-release
			return nil, errors.Join(err, errNo)
		}))
		id := n.submit(engine.Request{Type: "pay"})
		n.end(id) // waiting calls return at the commit
		if s := n.Stats(); s.Running != 1 {
			t.Errorf("its slot was given to another: %+v", s)
		}
		if err := <-stopped; err == nil {
			t.Error("it was not stopped")
		}
		time.Sleep(time.Hour)
		close(release)
		time.Sleep(time.Second)
		if s := n.Stats(); n.expect(id, task.Done).Attempt != 1 || s.Running != 0 || s.Stale+s.Abandoned != 0 {
			t.Errorf("%+v", s)
		}
	})
}

// The node dies between the commit and the handler's return: the task does not run again.
func TestATaskFinishedInATransactionStaysDoneWhenItsNodeDies(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		g := newGroup(t)
		committed, release := make(chan struct{}), make(chan struct{})
		var a *member
		a = g.join("a", one("pay", nil), func(ctx context.Context, _ *task.Task) ([]byte, error) {
			err := pay(ctx, a.Engine, g.store, "paid")
			close(committed)
			<-release
			return nil, err
		}, "pay")
		id := a.submit(engine.Request{Type: "pay"})
		<-committed
		b := g.join("b", one("pay", nil), func(context.Context, *task.Task) ([]byte, error) {
			t.Error("it ran again")
			return nil, nil
		}, "pay")
		a.coord.Sever()
		time.Sleep(time.Minute)
		if got := b.expect(id, task.Done); string(got.Result) != "paid" || b.paid() != 1 || len(got.History) != 0 {
			t.Errorf("%d payments: %+v", b.paid(), got)
		}
		close(release)
		time.Sleep(time.Minute)
		if s := a.Stats(); s.Stale != 0 || s.Running != 0 {
			t.Errorf("%+v", s)
		}
	})
}

// The node was taken for dead and the task is to run again: the late transaction is rolled
// back, so the effect is there once.
func TestATransactionOfANodeThatWasTakenForDeadIsRolledBack(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		g := newGroup(t)
		began, release := make(chan task.Ref, 1), make(chan struct{})
		var late error
		var a, b *member
		work := func(ctx context.Context, tk *task.Task) ([]byte, error) {
			if tk.Attempt > 1 {
				return nil, pay(ctx, b.Engine, g.store, "again")
			}
			began <- tk.Ref()
			<-release
			late = pay(context.WithoutCancel(ctx), b.Engine, g.store, "late")
			return nil, late
		}
		a = g.join("a", one("pay", nil), work, "pay")
		id := a.submit(engine.Request{Type: "pay"})
		ref := <-began
		b = g.join("b", one("pay", nil), work, "pay")
		a.coord.Sever()
		for b.get(id).Version == ref.Version {
			time.Sleep(time.Second)
		}
		close(release)
		b.end(id)
		time.Sleep(time.Minute)
		synctest.Wait() // the handler has written late
		if got := b.expect(id, task.Done); string(got.Result) != "again" || b.paid() != 1 || !errors.Is(late, engine.ErrAttemptOver) {
			t.Errorf("%d payments, %q; the late one: %v", b.paid(), got.Result, late)
		}
	})
}

func TestFinishTxKeepsTheLastProgress(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var n *node
		n = start(t, one("pay", nil), handle("pay", func(ctx context.Context, _ *task.Task) ([]byte, error) {
			task.ReportProgress(ctx, 3, 3, "all")
			return nil, pay(ctx, n.Engine, n.store, "paid")
		}))
		if got := n.end(n.submit(engine.Request{Type: "pay"})); got.Progress().Done != 3 {
			t.Errorf("progress %+v", got.Progress())
		}
	})
}

func TestFinishTxRefusesWhatItCannotDo(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var n *node
		n = start(t, one("pay", nil), handle("pay", func(ctx context.Context, _ *task.Task) ([]byte, error) {
			err := n.store.Update(ctx, func(tx storage.Tx) error { return engine.FinishTx(ctx, tx, make([]byte, engine.MaxResult+1)) })
			if err == nil {
				t.Error("a result that is too large is taken")
			}
			return nil, nil
		}))
		n.end(n.submit(engine.Request{Type: "pay"}))
		err := n.store.Update(t.Context(), func(tx storage.Tx) error { return engine.FinishTx(t.Context(), tx, nil) })
		if err == nil {
			t.Error("a context that is no handler's is taken")
		}
	})
}
