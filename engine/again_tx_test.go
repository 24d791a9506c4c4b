package engine_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/storage/memory"
	"github.com/taskengine/taskengine/task"
)

// payAgain makes a payment and lets the task run again, in one transaction of store.
func payAgain(ctx context.Context, e *engine.Engine, store storage.Store, at time.Time, options ...task.AgainOption) error {
	return store.Update(ctx, func(tx storage.Tx) error {
		if _, err := e.SubmitTx(ctx, tx, engine.Request{Type: books}); err != nil {
			return err
		}
		return engine.AgainTx(ctx, tx, []byte("so far"), at, options...)
	})
}

// The transaction commits: whatever the handler returns, the task runs again as the transaction says.
func TestATaskRunsAgainAsATransactionSaysWhateverItsHandlerReturns(t *testing.T) {
	for name, c := range map[string]struct {
		err    error
		silent bool // OnCommit functions are not called
	}{
		"nothing":           {},
		"an error":          {err: errNo},
		"a permanent error": {err: task.Permanent(errNo)},
		"another time":      {err: task.Again(time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC), task.WithPayload([]byte("other")))},
		"nothing, and nothing says that it has committed":  {silent: true},
		"an error, and nothing says that it has committed": {silent: true, err: errNo},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				store := memory.New()
				n := &node{t: t, store: store, config: engine.Config{
					Store: store, Policies: one("pay", func(p *policy.Type) { p.Concurrency = 1 }),
				}}
				var begun []time.Time
				n.config.Handlers = handle("pay", func(ctx context.Context, tk *task.Task) ([]byte, error) {
					begun = append(begun, time.Now())
					var in storage.Store = store
					if c.silent {
						in = hookless{store}
					}
					if string(tk.Payload) == "second" {
						if string(tk.Checkpoint()) != "kept" || tk.Attempt != 1 {
							t.Errorf("the second run has %+v", tk)
						}
						return []byte("paid"), nil
					}
					if err := payAgain(ctx, n.Engine, in, time.Now().Add(time.Hour), task.WithPayload([]byte("second")), task.WithCheckpoint([]byte("kept"))); err != nil {
						t.Error(err)
					}
					return []byte("ignored"), c.err
				})
				n.open()
				t.Cleanup(n.close)
				id := n.submit(engine.Request{Type: "pay", Payload: []byte("first")})
				time.Sleep(time.Minute)
				if got := n.expect(id, task.Waiting); string(got.Result) != "so far" || got.Attempt != 0 || n.paid() != 1 {
					t.Errorf("after its first run it is %+v, with %d payments", got, n.paid())
				}
				got := n.end(id)
				if got.State != task.Done || string(got.Result) != "paid" || n.paid() != 1 || len(begun) != 2 || begun[1].Sub(begun[0]) < time.Hour {
					t.Errorf("it is %+v, with %d payments and runs at %v", got, n.paid(), begun)
				}
				time.Sleep(10 * time.Minute)
				if s := n.Stats(); s.Stale != 0 || s.Running != 0 {
					t.Errorf("%+v", s)
				}
			})
		})
	}
}

func TestATaskOfATransactionThatWasRolledBackRunsAsItsHandlerReturns(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var n *node
		n = start(t, one("pay", nil), handle("pay", func(ctx context.Context, _ *task.Task) ([]byte, error) {
			err := n.store.Update(ctx, func(tx storage.Tx) error {
				return errors.Join(engine.AgainTx(ctx, tx, nil, time.Now().Add(time.Second), task.WithPayload([]byte("new"))), errDeclined)
			})
			if !errors.Is(err, errDeclined) || errors.Is(err, engine.ErrAttemptOver) {
				t.Errorf("got %v", err)
			}
			time.Sleep(time.Minute)
			return []byte("returned"), nil
		}))
		got := n.end(n.submit(engine.Request{Type: "pay", Payload: []byte("old")}))
		time.Sleep(10 * time.Minute)
		if got.State != task.Done || string(got.Result) != "returned" || string(got.Payload) != "old" || n.Stats().Stale != 0 {
			t.Errorf("got %+v; %+v", got, n.Stats())
		}
	})
}

// Another change of the task came first: the business change is rolled back.
func TestAnAttemptThatIsOverHasNothingRunAgain(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var n *node
		began, gate := make(chan struct{}), make(chan struct{})
		n = start(t, one("pay", nil), handle("pay", func(ctx context.Context, _ *task.Task) ([]byte, error) {
			close(began)
			<-gate
			err := payAgain(context.WithoutCancel(ctx), n.Engine, n.store, time.Now())
			if !errors.Is(err, engine.ErrAttemptOver) {
				t.Errorf("got %v", err)
			}
			return nil, err
		}))
		id := n.submit(engine.Request{Type: "pay"})
		<-began
		if _, err := n.Cancel(t.Context(), task.Ref{ID: id}, ""); err != nil {
			t.Error(err)
		}
		close(gate)
		time.Sleep(time.Minute)
		if got := n.get(id); got.State != task.Cancelled || n.paid() != 0 || n.Stats().Running != 0 {
			t.Errorf("it is %v, with %d payments; %+v", got.State, n.paid(), n.Stats())
		}
	})
}

// The handler goes on after the commit, with and without a cancelled context, and beyond the next time
// of its task.
func TestATaskDoesNotRunAgainBeforeItsHandlerHasReturned(t *testing.T) {
	for name, silent := range map[string]bool{"reported": false, "not reported": true} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				var n *node
				runs, running := 0, false
				set := one("pay", func(p *policy.Type) { p.Timeout.Run, p.Timeout.Grace = time.Minute, time.Second })
				n = start(t, set, handle("pay", func(ctx context.Context, _ *task.Task) ([]byte, error) {
					if running {
						t.Error("it runs twice at once")
					}
					runs, running = runs+1, true
					defer func() { running = false }()
					if runs > 1 {
						return nil, nil
					}
					in := n.store
					if silent {
						in = hookless{n.store}
					}
					err := payAgain(ctx, n.Engine, in, time.Now().Add(time.Second))
					time.Sleep(time.Hour)
					return nil, err
				}))
				if got := n.end(n.submit(engine.Request{Type: "pay"})); got.State != task.Done || runs != 2 || n.paid() != 1 {
					t.Errorf("after %d runs and %d payments it is %+v", runs, n.paid(), got)
				}
			})
		})
	}
}

func TestATransactionThatAsksAtOnceRestsLongerEachTime(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var n *node
		runs := 0
		n = start(t, one("pay", nil), handle("pay", func(ctx context.Context, _ *task.Task) ([]byte, error) {
			runs++
			return nil, payAgain(ctx, n.Engine, n.store, time.Now())
		}))
		n.submit(engine.Request{Type: "pay"})
		time.Sleep(time.Hour)
		synctest.Wait() // its last run has returned
		if runs > 80 || runs < 20 || n.Stats().Slowed == 0 {
			t.Errorf("it ran %d times in an hour; %+v", runs, n.Stats())
		}
	})
}

func TestATaskThatRunsAgainByATransactionCountsInItsBacklog(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var n *node
		set := one("pay", func(p *policy.Type) { p.MaxBacklog.Max = 1 })
		n = start(t, set, handle("pay", func(ctx context.Context, _ *task.Task) ([]byte, error) {
			return nil, n.store.Update(ctx, func(tx storage.Tx) error { return engine.AgainTx(ctx, tx, nil, time.Now().Add(time.Hour)) })
		}))
		n.submit(engine.Request{Type: "pay"})
		time.Sleep(time.Minute)
		if _, err := n.Submit(t.Context(), engine.Request{Type: "pay"}); !errors.Is(err, engine.ErrBacklog) {
			t.Errorf("another task is taken: %v", err)
		}
	})
}

func TestAgainTxRefusesWhatItCannotDo(t *testing.T) {
	at := time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		result  []byte
		at      time.Time
		options []task.AgainOption
		want    string
	}{
		"a large result":     {result: make([]byte, engine.MaxResult+1), at: at, want: "max_result"},
		"a large payload":    {at: at, options: []task.AgainOption{task.WithPayload(make([]byte, 100))}, want: "max_payload"},
		"a large checkpoint": {at: at, options: []task.AgainOption{task.WithCheckpoint(make([]byte, task.MaxCheckpoint+1))}, want: "a checkpoint of 1048577 bytes"},
		"tasks":              {at: at, options: []task.AgainOption{task.WithTasks(engine.Request{Type: "x"})}, want: "SubmitTx"},
		"no time":            {want: "FinishTx"},
		"a time too late":    {at: time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC), want: "9999"},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				var n *node
				n = start(t, one("pay", func(p *policy.Type) { p.MaxPayload, p.Retry.Max = 99, 1 }), handle("pay", func(ctx context.Context, _ *task.Task) ([]byte, error) {
					return nil, n.store.Update(ctx, func(tx storage.Tx) error { return engine.AgainTx(ctx, tx, c.result, c.at, c.options...) })
				}))
				got := n.end(n.submit(engine.Request{Type: "pay", Payload: []byte("old")}))
				if got.State != task.Error || !strings.Contains(got.LastError, c.want) || string(got.Payload) != "old" {
					t.Errorf("it is %+v, want an error with %q", got, c.want)
				}
				err := n.store.Update(t.Context(), func(tx storage.Tx) error { return engine.AgainTx(t.Context(), tx, c.result, c.at, c.options...) })
				if err == nil {
					t.Error("a context that is no handler's is taken")
				}
			})
		})
	}
}
