package engine_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

// capped returns a set with the type mail and a maximum of its backlog. One task runs at a time.
func capped(b policy.Backlog) policy.Set {
	return one("mail", func(p *policy.Type) { p.MaxBacklog, p.Concurrency = b, 1 })
}

// blocked returns a handler that waits until its task is released.
func blocked() (map[string]task.Handler, chan struct{}) {
	next := make(chan struct{})
	return handle("mail", func(ctx context.Context, _ *task.Task) ([]byte, error) {
		select {
		case <-next:
			return nil, nil
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}), next
}

// backlog returns the only backlog, and fails the test if the store has another number of tasks.
func (n *node) backlog() engine.BacklogStatus {
	n.t.Helper()
	counts, err := n.Count(context.Background(), storage.Filter{States: []task.State{task.Waiting, task.Submitted}, Types: []string{"mail"}})
	if err != nil {
		n.t.Fatal(err)
	}
	stored := 0
	for _, some := range counts {
		stored += int(some)
	}
	b := n.Backlogs()[0]
	if b.Tasks != stored {
		n.t.Errorf("the backlog is taken for %d tasks, and the store has %d", b.Tasks, stored)
	}
	return b
}

func mails(n int) []engine.Request {
	reqs := make([]engine.Request, n)
	for i := range reqs {
		reqs[i].Type = "mail"
	}
	return reqs
}

func TestAFullBacklogRefusesNewTasksUntilSomeHaveStarted(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		handlers, next := blocked()
		n := start(t, capped(policy.Backlog{Max: 3}), handlers)
		ctx := context.Background()
		n.submit(engine.Request{Type: "mail"}) // runs
		n.submit(engine.Request{Type: "mail"})
		if _, err := n.Submit(ctx, mails(3)...); !errors.Is(err, engine.ErrBacklog) || !strings.Contains(err.Error(), "type mail has 1 tasks that have not started, of 3 allowed by max_backlog, and the request adds 3 more") {
			t.Errorf("three more: %v", err)
		}
		if got := n.backlog(); got.Tasks != 1 || got.Refused != 3 {
			t.Errorf("a batch is all or nothing: %+v", got)
		}
		if _, err := n.Submit(ctx, mails(4)...); !errors.Is(err, engine.ErrBacklog) || !strings.Contains(err.Error(), "submit fewer") {
			t.Errorf("more at once than there can be: %v", err)
		}
		n.submit(engine.Request{Type: "mail", At: time.Now().Add(time.Hour)})
		n.submit(engine.Request{Type: "mail"})
		if _, err := n.Submit(ctx, engine.Request{Type: "mail"}); !errors.Is(err, engine.ErrBacklog) {
			t.Errorf("delayed tasks count: %v", err)
		}
		if _, err := n.Submit(ctx, engine.Request{Type: "other"}); err != nil {
			t.Errorf("another type: %v", err)
		}
		next <- struct{}{}
		time.Sleep(time.Second) // of the bubble: the next one has started
		n.submit(engine.Request{Type: "mail"})
		if got := n.backlog(); got.Tasks != 3 {
			t.Errorf("got %+v", got)
		}
	})
}

func TestARepeatedSubmitNeedsNoRoom(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		handlers, _ := blocked()
		n := start(t, capped(policy.Backlog{Max: 2}), handlers)
		ctx := context.Background()
		running := n.submit(engine.Request{Type: "mail"})
		keyed := n.submit(engine.Request{Type: "mail", Key: "k"})
		id := task.ID{1: 7, 15: 9}
		n.submit(engine.Request{Type: "mail", ID: id})
		again := []engine.Request{{Type: "mail", Key: "k"}, {Type: "mail", ID: id}, {Type: "mail", ID: running}}
		want := []engine.Receipt{{ID: keyed}, {ID: id}, {ID: running}}
		got, err := n.Submit(ctx, again...)
		if err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("got %v (%v), want %v", got, err, want)
		}
		err = n.store.Update(ctx, func(tx storage.Tx) (err error) {
			got, err = n.SubmitTx(ctx, tx, again...)
			return err
		})
		if err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("in a transaction: got %v (%v), want %v", got, err, want)
		}
		for _, r := range []engine.Request{{Type: "mail", Key: "new"}, {Type: "mail", ID: task.ID{1: 7, 15: 10}}} {
			if _, err := n.Submit(ctx, append(again, r)...); !errors.Is(err, engine.ErrBacklog) || !strings.Contains(err.Error(), "1 more") {
				t.Errorf("with a new one: %v", err)
			}
		}
		if got := n.backlog(); got.Tasks != 2 {
			t.Errorf("got %+v", got)
		}
		n.backlogAfterCancel(keyed, 1)
		got, err = n.Submit(ctx, append(again, engine.Request{Type: "mail", Key: "new"})...)
		if err != nil || len(got) != 4 || got[0].Created || !got[3].Created {
			t.Errorf("one new task where there is room for one: %+v, %v", got, err)
		}
	})
}

func (n *node) backlogAfterCancel(id task.ID, want int) {
	n.t.Helper()
	if _, err := n.Cancel(context.Background(), task.Ref{ID: id}, "no"); err != nil {
		n.t.Fatal(err)
	}
	if got := n.backlog(); got.Tasks != want {
		n.t.Errorf("after a cancel: %+v, want %d", got, want)
	}
}

func TestRetriesAndPeopleAreNotRefusedByAFullBacklog(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		set := capped(policy.Backlog{Max: 1})
		calls := 0
		n := start(t, set, handle("mail", func(context.Context, *task.Task) ([]byte, error) {
			if calls++; calls == 1 {
				return nil, task.RetryIn(time.Hour, errNo)
			}
			return nil, task.Permanent(errNo)
		}))
		ctx := context.Background()
		first := n.submit(engine.Request{Type: "mail"})
		time.Sleep(time.Second)
		if got := n.backlog(); got.Tasks != 1 {
			t.Errorf("a retry counts: %+v", got)
		}
		if _, err := n.Submit(ctx, engine.Request{Type: "mail"}); !errors.Is(err, engine.ErrBacklog) {
			t.Errorf("got %v", err)
		}
		got := n.end2(first, task.Error)
		n.submit(engine.Request{Type: "mail", At: time.Now().Add(time.Hour)})
		if _, err := n.Reschedule(ctx, got.Ref(), time.Now().Add(time.Minute)); err != nil {
			t.Errorf("reschedule: %v", err)
		}
		if got := n.backlog(); got.Tasks != 2 {
			t.Errorf("got %+v", got)
		}
		time.Sleep(2 * time.Hour)
		if got := n.backlog(); got.Tasks != 0 {
			t.Errorf("got %+v", got)
		}
	})
}

// end2 waits for a state that is no end.
func (n *node) end2(id task.ID, want task.State) *task.Task {
	n.t.Helper()
	for n.get(id).State != want {
		time.Sleep(time.Minute)
	}
	return n.get(id)
}

func TestTheOldestTasksAreDroppedForNewOnes(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		handlers, _ := blocked()
		n := start(t, capped(policy.Backlog{Max: 3, WhenFull: policy.DropOldest}), handlers)
		now := time.Now()
		running := n.submit(engine.Request{Type: "mail"})
		late := n.submit(engine.Request{Type: "mail", At: now.Add(time.Hour)})
		var old []task.ID
		for range 2 {
			time.Sleep(time.Second)
			old = append(old, n.submit(engine.Request{Type: "mail"}))
		}
		n.submit(engine.Request{Type: "mail"})
		got := n.expect(old[0], task.Cancelled)
		if !strings.Contains(got.LastError, "dropped") || !strings.Contains(got.LastError, "max_backlog of 3") {
			t.Errorf("its error is %q", got.LastError)
		}
		n.expect(old[1], task.Submitted)
		for _, r := range mails(2) {
			n.submit(r)
		}
		n.expect(old[1], task.Cancelled)
		n.expect(late, task.Waiting)
		n.expect(running, task.Processing)
		if got := n.backlog(); got.Tasks != 3 || got.Dropped != 3 {
			t.Errorf("got %+v", got)
		}
		if _, err := n.Submit(context.Background(), mails(4)...); !errors.Is(err, engine.ErrBacklog) {
			t.Errorf("more than the maximum at once: %v", err)
		}
		if _, err := n.Submit(context.Background(), mails(3)...); err != nil {
			t.Errorf("as many as the maximum at once: %v", err)
		}
		n.expect(late, task.Cancelled)
	})
}

func TestATaskThatHasStartedIsNotDropped(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		n := start(t, capped(policy.Backlog{Max: 1, WhenFull: policy.DropOldest}), handle("mail", func(context.Context, *task.Task) ([]byte, error) {
			return nil, task.RetryIn(time.Hour, errNo)
		}))
		retried := n.submit(engine.Request{Type: "mail"})
		time.Sleep(time.Second)
		for range 3 {
			if _, err := n.Submit(context.Background(), engine.Request{Type: "mail"}); !errors.Is(err, engine.ErrBacklog) {
				t.Errorf("got %v", err)
			}
		}
		n.expect(retried, task.Waiting)
	})
}

func TestManySubmittersDoNotExceedABacklog(t *testing.T) {
	for _, when := range []policy.WhenFull{policy.Reject, policy.DropOldest} {
		t.Run(when.String(), func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				handlers, _ := blocked()
				const most = 20
				n := start(t, capped(policy.Backlog{Max: most, WhenFull: when}), handlers)
				var all sync.WaitGroup
				for range 30 {
					all.Go(func() {
						for k := range 10 {
							_, err := n.Submit(context.Background(), mails(1+k%3)...)
							if err != nil && !errors.Is(err, engine.ErrBacklog) {
								t.Errorf("submit: %v", err)
							}
							counts, err := n.Count(context.Background(), storage.Filter{States: []task.State{task.Waiting, task.Submitted}})
							if got := counts[storage.StateType{State: task.Submitted, Type: "mail"}]; err != nil || got > most {
								t.Errorf("%d tasks have not started, of %d (%v)", got, most, err)
							}
						}
					})
				}
				all.Wait()
				time.Sleep(2 * time.Second) // if all of these came before the first were written, nothing was found to drop
				if _, err := n.Submit(context.Background(), mails(3)...); err != nil && !errors.Is(err, engine.ErrBacklog) {
					t.Errorf("submit more than there is room for: %v", err)
				}
				if got := n.backlog(); got.Tasks > most || got.Tasks < most-2 || when == policy.DropOldest && got.Dropped == 0 || when == policy.Reject && got.Refused == 0 {
					t.Errorf("got %+v", got)
				}
			})
		})
	}
}

func TestATransactionFindsNoRoomForMoreThanTheMaximum(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		handlers, _ := blocked()
		n := start(t, capped(policy.Backlog{Max: 3}), handlers)
		ctx := context.Background()
		n.submit(engine.Request{Type: "mail"})
		add := func(many int, end error) (err error) {
			return n.store.Update(ctx, func(tx storage.Tx) error {
				for range many {
					if _, err := n.SubmitTx(ctx, tx, engine.Request{Type: "mail"}); err != nil {
						return err
					}
				}
				return end
			})
		}
		if err := add(4, nil); !errors.Is(err, engine.ErrBacklog) {
			t.Errorf("four in one transaction: %v", err)
		}
		if err := add(3, errNo); !errors.Is(err, errNo) {
			t.Errorf("rolled back: %v", err)
		}
		if err := add(3, nil); err != nil {
			t.Errorf("three in one transaction: %v", err)
		}
		if err := add(1, nil); !errors.Is(err, engine.ErrBacklog) {
			t.Errorf("one more: %v", err)
		}
		if got := n.backlog(); got.Tasks != 3 {
			t.Errorf("got %+v", got)
		}
	})
}

func TestNodesThatShareAStoreCountABacklogWithinASecondOrTwo(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		g := newGroup(t)
		set := capped(policy.Backlog{Max: 5})
		a, b := g.join("a", set, takes(time.Second)), g.join("b", set, takes(time.Second)) // no node handles the tasks
		ctx := context.Background()
		for range 5 {
			a.submit(engine.Request{Type: "mail"})
		}
		if _, err := a.Submit(ctx, engine.Request{Type: "mail"}); !errors.Is(err, engine.ErrBacklog) {
			t.Errorf("the node that has added them: %v", err)
		}
		b.submit(engine.Request{Type: "mail"}) // it does not know yet
		time.Sleep(2 * time.Second)
		for _, m := range []*member{a, b} {
			if got := m.backlog(); got.Tasks != 6 {
				t.Errorf("node %s knows of %d", m.name, got.Tasks)
			}
			if _, err := m.Submit(ctx, engine.Request{Type: "mail"}); !errors.Is(err, engine.ErrBacklog) {
				t.Errorf("node %s: %v", m.name, err)
			}
		}
	})
}
