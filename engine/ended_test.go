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
	"github.com/taskengine/taskengine/storage/memory"
	"github.com/taskengine/taskengine/task"
)

// getFails is a store of which some reads of single rows fail.
type getFails struct {
	*memory.Store
	fails atomic.Int32 // so many more
}

func (s *getFails) Get(ctx context.Context, id task.ID) (*task.Task, error) {
	if s.fails.Add(-1) >= 0 {
		return nil, errors.New("the connection is lost")
	}
	return s.Store.Get(ctx, id)
}

// endBehind ends the attempt of t as a function of the database does: without the engine.
func endBehind(t *task.Task, s storage.Store, c task.Change, keep time.Duration) error {
	c.Ref, c.At, c.Outcome = t.Ref(), time.Now(), task.Completed
	if c.To == task.Done {
		c.NextEventAt = c.At.Add(keep)
	}
	return s.Update(context.Background(), func(tx storage.Tx) error {
		rows, err := tx.Swap(context.Background(), c)
		if err != nil || rows[0] == nil || keep > 0 || c.To != task.Done {
			return err
		}
		_, err = tx.Delete(context.Background(), rows[0].Ref())
		return err
	})
}

func done(result string) task.Change { return task.Change{To: task.Done, Result: []byte(result)} }

func againAt(at time.Time) task.Change {
	payload, checkpoint := []byte("second"), []byte("kept")
	return task.Change{To: task.Waiting, NextEventAt: at, ReadyAt: at, Count: task.Reset, Payload: &payload, Checkpoint: &checkpoint, Result: []byte("so far")}
}

// The node has nothing to save, and learns the present state of the task, whatever reads fail.
func TestAnAttemptThatTheDatabaseEndedIsLeftAsItIs(t *testing.T) {
	for name, c := range map[string]struct {
		again bool
		woken bool // it runs again, and has waited for no children: it is ready at once
		kept  time.Duration
		fails int32 // reads of the row
		err   error // the result of the handler
		stale uint64
	}{
		"done":                           {kept: time.Hour, err: task.Ended()},
		"done, in an error with a class": {kept: time.Hour, err: task.WithClass("c", task.Ended())},
		"done, and the row cannot be read at once":              {kept: time.Hour, fails: 1, err: task.Ended()},
		"done, and the row cannot be read":                      {kept: time.Hour, fails: 2, err: task.Ended(), stale: 1},
		"done and not kept":                                     {err: task.Ended()},
		"done and not kept, and the row cannot be read at once": {fails: 1, err: task.Ended()},
		"it runs again":                                         {again: true, kept: time.Hour, err: task.Ended()},
		"it waits, and the wait is over":                        {again: true, woken: true, kept: time.Hour, err: task.Ended()},
		"it runs again, and the row cannot be read at once":     {again: true, kept: time.Hour, fails: 1, err: task.Ended()},
		"done, and the handler says nothing":                    {kept: time.Hour, stale: 1},
		"it runs again, and the handler says nothing":           {again: true, kept: time.Hour, stale: 2},
		"done, and the handler fails":                           {kept: time.Hour, err: errNo, stale: 1},
		"done, and the handler wants to run again":              {kept: time.Hour, err: task.Again(time.Now()), stale: 1},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				store := &getFails{Store: memory.New()}
				var saved []*task.Task
				calls := 0
				n := &node{t: t, store: store, config: engine.Config{
					Store: store, Policies: one("pay", func(p *policy.Type) { p.Concurrency, p.Retention.Done = 1, c.kept }),
					Observer: engine.Observer{Saved: func(_ time.Time, _ task.Ref, row *task.Task) { saved = append(saved, row) }},
				}}
				n.config.Handlers = handle("pay", func(_ context.Context, tk *task.Task) ([]byte, error) {
					calls++
					change := done("by the database")
					if c.again && calls == 1 {
						change = againAt(time.Now().Add(time.Minute))
						if c.woken {
							change.Await = &task.Await{Names: []string{task.AwaitsChildren}, Children: []task.ChildrenWait{{Name: "none"}}}
						}
					} else if c.again && (string(tk.Payload) != "second" || string(tk.Checkpoint()) != "kept" || tk.Attempt != 1) {
						t.Errorf("the second run has %+v", tk)
					}
					if err := endBehind(tk, store.Store, change, c.kept); err != nil {
						t.Error(err)
					}
					tk.Type, tk.ID = "nothing", task.ID{} // it owns the task
					store.fails.Store(c.fails)
					return nil, c.err
				})
				n.open()
				t.Cleanup(n.close)
				id := n.submit(engine.Request{Type: "pay", Payload: []byte("first")})
				time.Sleep(10 * time.Minute)
				synctest.Wait()
				want := 1
				if c.again {
					want = 2
				}
				if s := n.Stats(); calls != want || s.Stale != c.stale || s.Running != 0 || len(saved) != want {
					t.Errorf("the handler ran %d times, %d ends were reported; %+v", calls, len(saved), s)
				}
				for i, row := range saved {
					state := task.Done
					switch {
					case i < want-1 && c.woken:
						state = task.Submitted
					case i < want-1:
						state = task.Waiting
					}
					if (row == nil) != (c.stale > 0) || row != nil && row.State != state {
						t.Errorf("end %d is reported as %+v", i, row)
					}
				}
				got, err := n.Get(t.Context(), id)
				if c.kept == 0 {
					if !errors.Is(err, task.ErrNotFound) {
						t.Errorf("got %+v, %v", got, err)
					}
				} else if err != nil || got.State != task.Done || string(got.Result) != "by the database" {
					t.Errorf("got %+v, %v", got, err)
				}
			})
		})
	}
}

// The handler is wrong about it, or its transaction was rolled back.
func TestAnAttemptThatTheDatabaseHasNotEndedHasFailed(t *testing.T) {
	for name, delivery := range map[string]policy.Delivery{"tried again": policy.AtLeastOnce, "in doubt": policy.AtMostOnce} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				calls := 0
				n := start(t, one("pay", func(p *policy.Type) { p.Delivery = delivery }), handle("pay", func(context.Context, *task.Task) ([]byte, error) {
					if calls++; calls == 1 {
						return []byte("lost"), task.Ended()
					}
					return []byte("paid"), nil
				}))
				id := n.submit(engine.Request{Type: "pay"})
				time.Sleep(time.Hour)
				synctest.Wait()
				const says = "the handler says that it has ended its attempt in a transaction, and the attempt has not ended: the transaction did not commit"
				got := n.get(id)
				if delivery == policy.AtLeastOnce {
					if got.State != task.Done || string(got.Result) != "paid" || len(got.History) != 1 || got.History[0].Error != says {
						t.Errorf("got %+v", got)
					}
				} else if got.State != task.Error || calls != 1 {
					t.Errorf("got %+v after %d calls", got, calls)
				}
				if s := n.Stats(); s.Stale != 0 {
					t.Errorf("%+v", s)
				}
			})
		})
	}
}

// The attempt was over, in another way than the handler says.
func TestAnAttemptThatIsOverStaysSoWhenItsHandlerSaysThatItHasEndedIt(t *testing.T) {
	for name, change := range map[string]func(n *node, tk *task.Task) error{
		"a person has cancelled it": func(n *node, tk *task.Task) error {
			_, err := n.Cancel(context.Background(), task.Ref{ID: tk.ID}, "no")
			return err
		},
		"another node has failed it": func(n *node, tk *task.Task) error {
			_, err := n.store.Swap(context.Background(), task.Change{Ref: tk.Ref(), To: task.Error, At: time.Now(), Outcome: task.Crashed, Error: "its node is gone"})
			return err
		},
		"another node has it wait": func(n *node, tk *task.Task) error {
			_, err := n.store.Swap(context.Background(), task.Change{Ref: tk.Ref(), To: task.Waiting, At: time.Now(), NextEventAt: time.Now().Add(9000 * time.Hour), Outcome: task.Interrupted})
			return err
		},
		"it was ended, and then changed": func(n *node, tk *task.Task) error {
			err := endBehind(tk, n.store, againAt(time.Now().Add(9000*time.Hour)), time.Hour)
			if err == nil {
				_, err = n.store.Swap(context.Background(), task.Change{Ref: task.Ref{ID: tk.ID, Version: tk.Version + 1}, To: task.Cancelled, At: time.Now(), NextEventAt: time.Now().Add(time.Hour)})
			}
			return err
		},
		"it was deleted": func(n *node, tk *task.Task) error {
			_, err := n.store.Delete(context.Background(), tk.Ref())
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				var n *node
				var want *task.Task
				calls := 0
				n = start(t, one("pay", nil), handle("pay", func(_ context.Context, tk *task.Task) ([]byte, error) {
					calls++
					if err := change(n, tk); err != nil {
						t.Error(err)
					}
					want, _ = n.store.Get(context.Background(), tk.ID)
					return nil, task.Ended()
				}))
				id := n.submit(engine.Request{Type: "pay"})
				time.Sleep(time.Minute)
				synctest.Wait()
				got, err := n.store.Get(t.Context(), id)
				if (want == nil) != (err != nil) || want != nil && (got.Version != want.Version || got.State != want.State) || calls != 1 {
					t.Errorf("after %d calls it is %+v, %v; want %+v", calls, got, err, want)
				}
				if s := n.Stats(); s.Running != 0 {
					t.Errorf("%+v", s)
				}
			})
		})
	}
}

// A task of an ordering key runs when the one before it has ended in the database.
func TestTheNextTaskOfAnOrderingKeyFollowsAnAttemptThatTheDatabaseEnded(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var n *node
		var ran []string
		n = start(t, one("pay", nil), handle("pay", func(_ context.Context, tk *task.Task) ([]byte, error) {
			ran = append(ran, string(tk.Payload))
			return nil, errors.Join(endBehind(tk, n.store, done(""), time.Hour), task.Ended())
		}))
		first := n.submit(engine.Request{Type: "pay", OrderingKey: "k", Payload: []byte("1")})
		second := n.submit(engine.Request{Type: "pay", OrderingKey: "k", Payload: []byte("2")})
		n.end(first)
		n.end(second)
		if len(ran) != 2 || ran[0] != "1" {
			t.Errorf("they ran as %q", ran)
		}
	})
}
