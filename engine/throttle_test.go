package engine_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

// throttled returns a set with the type x, of which one task of a key is added in an hour.
func throttled(edit func(*policy.Type)) policy.Set {
	return unique(policy.ThrottleNew, func(p *policy.Type) {
		p.Unique.Window = time.Hour
		if edit != nil {
			edit(p)
		}
	})
}

func TestOneTaskOfAKeyIsAddedInAWindow(t *testing.T) {
	for name := range submits(nil) {
		for _, keep := range []time.Duration{0, time.Minute, 7 * 24 * time.Hour} {
			t.Run(fmt.Sprint(name, " ", keep), func(t *testing.T) {
				inBubble(t, func(t *testing.T) { addInWindows(t, name, keep) })
			})
		}
	}
}

func addInWindows(t *testing.T, name string, keep time.Duration) {
	n := start(t, throttled(func(p *policy.Type) { p.Retention.Done = keep }), handle("x", new(journal).work(20*time.Minute)))
	submit := submits(n)[name]
	ask := func(key string) engine.Receipt {
		t.Helper()
		receipts, err := submit(engine.Request{Type: "x", Key: key, Payload: []byte(key)})
		if err != nil {
			t.Fatal(err)
		}
		return receipts[0]
	}
	var earlier task.ID
	for window := range 3 {
		began := time.Now()
		first := ask("k")
		if !first.Created || first.Outcome != engine.OutcomeCreated || first.ID == earlier {
			t.Fatalf("window %d begins with %+v", window, first)
		}
		if other := ask("k"); other != (engine.Receipt{ID: first.ID}) {
			t.Errorf("while the task runs: %+v", other)
		}
		for _, after := range []time.Duration{21 * time.Minute, 40 * time.Minute, time.Hour - time.Microsecond} {
			time.Sleep(time.Until(began.Add(after)))
			if other := ask("k"); other != (engine.Receipt{ID: first.ID, Outcome: engine.OutcomeAlreadyDone}) {
				t.Errorf("after %v: %+v", after, other)
			}
		}
		if other := ask(fmt.Sprint("another ", window)); !other.Created {
			t.Errorf("another key: %+v", other)
		}
		if keep > time.Hour && window > 0 {
			if was := n.expect(earlier, task.Done); was.Key != "" || string(was.Payload) != "k" {
				t.Errorf("the task of the window before is %+v", was)
			}
		}
		if is := n.expect(first.ID, task.Done); is.Key != "k" {
			t.Errorf("the task is %+v", is)
		}
		earlier = first.ID
		time.Sleep(time.Until(began.Add(time.Hour)))
	}
}

// A task that takes longer than the window, or becomes an error, has its key until it has ended.
func TestATaskThatHasNotEndedHasItsKeyAfterTheWindow(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		n := start(t, throttled(nil), handle("x", func(_ context.Context, t *task.Task) ([]byte, error) {
			return nil, task.Permanent(errNo)
		}))
		ask := func() engine.Receipt {
			t.Helper()
			receipts, err := n.Submit(t.Context(), engine.Request{Type: "x", Key: "k", At: time.Now().Add(90 * time.Minute)})
			if err != nil {
				t.Fatal(err)
			}
			return receipts[0]
		}
		first := ask()
		for range 2 {
			time.Sleep(80 * time.Minute) // it waits, and is an error
			if got := ask(); got != (engine.Receipt{ID: first.ID}) {
				t.Errorf("got %+v", got)
			}
		}
		is := n.expect(first.ID, task.Error)
		if _, err := n.Fail(t.Context(), is.Ref(), "hopeless"); err != nil {
			t.Fatal(err)
		}
		if got := ask(); !got.Created {
			t.Errorf("after its end: %+v", got)
		}
		n.expect(first.ID, task.Failed)
	})
}

func TestALateRequestAddsNoTaskAfterTheWindow(t *testing.T) {
	for name := range submits(nil) {
		inBubble(t, func(t *testing.T) {
			n := start(t, throttled(func(p *policy.Type) { p.MaxLateness = time.Minute }), handle("x", new(journal).work(0)))
			first := n.submit(engine.Request{Type: "x", Key: "k"})
			time.Sleep(2 * time.Hour)
			receipts, err := submits(n)[name](engine.Request{Type: "x", Key: "k", At: time.Now().Add(-time.Hour)})
			if !errors.Is(err, engine.ErrLate) || receipts[0].Outcome != engine.OutcomeLate {
				t.Errorf("%s: got %+v, %v", name, receipts, err)
			}
			if is := n.expect(first, task.Done); is.Key != "k" {
				t.Errorf("%s: the task has lost its key to a request that was refused", name)
			}
		})
	}
}

// Of requests at the same moment after the window, one adds a task, whatever the order of their steps is.
func TestOfManyRequestsAfterTheWindowOneAddsATask(t *testing.T) {
	for name := range submits(nil) {
		inBubble(t, func(t *testing.T) {
			n := start(t, throttled(nil), handle("x", new(journal).work(0)))
			submit := submits(n)[name]
			for window := range 5 {
				var mu sync.Mutex
				ids, created := make(map[task.ID]int), 0
				var all sync.WaitGroup
				for range 20 {
					all.Go(func() {
						receipts, err := submit(engine.Request{Type: "x", Key: "k"}, engine.Request{Type: "x", Key: "k"})
						if err != nil {
							t.Errorf("%s: %v", name, err)
							return
						}
						mu.Lock()
						defer mu.Unlock()
						for _, r := range receipts {
							ids[r.ID]++
							if r.Created {
								created++
							}
						}
					})
				}
				all.Wait()
				if created != 1 || len(ids) != 1 {
					t.Errorf("%s: window %d: %d tasks were created, and %d have the key", name, window, created, len(ids))
				}
				time.Sleep(time.Hour)
			}
		})
	}
}

// runs returns a duration that does not end at the moment of a request.
func runs(minutes int) time.Duration { return time.Duration(minutes)*time.Minute + 30*time.Second }

// fullBehind returns a node with a full backlog of two, and with a done task of the key k after the end of its window.
func fullBehind(t *testing.T, when policy.WhenFull) (n *node, first task.ID, waiting []task.ID) {
	n = start(t, throttled(func(p *policy.Type) {
		p.Concurrency, p.MaxBacklog = 1, policy.Backlog{Max: 2, WhenFull: when}
	}), handle("x", func(ctx context.Context, t *task.Task) ([]byte, error) {
		if string(t.Payload) == "block" {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		return nil, nil
	}))
	first = n.submit(engine.Request{Type: "x", Key: "k"})
	time.Sleep(2 * time.Hour)
	n.expect(first, task.Done)
	n.submit(engine.Request{Type: "x", Payload: []byte("block")})
	time.Sleep(time.Second)
	for range 2 {
		waiting = append(waiting, n.submit(engine.Request{Type: "x"}))
	}
	time.Sleep(time.Second)
	return n, first, waiting
}

func TestAThrottledRequestDropsTheOldestOfAFullBacklog(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		n, first, waiting := fullBehind(t, policy.DropOldest)
		receipts, err := n.Submit(t.Context(), engine.Request{Type: "x"}, engine.Request{Type: "x", Key: "k"})
		if err != nil || !receipts[0].Created || !receipts[1].Created || receipts[1].ID == first {
			t.Fatalf("got %+v, %v", receipts, err)
		}
		for _, id := range waiting {
			n.expect(id, task.Cancelled)
		}
		if got := n.get(receipts[1].ID); got.Key != "k" || n.get(first).Key != "" {
			t.Errorf("the new task has the key %q, the old one %q", got.Key, n.get(first).Key)
		}
	})
}

func TestACallWithAThrottledRequestIsRefusedAsAWhole(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		n, first, waiting := fullBehind(t, policy.Reject)
		count := func() (all int) {
			counts, err := n.Count(t.Context(), storage.Filter{})
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range counts {
				all += int(c)
			}
			return all
		}
		before := count()
		for _, reqs := range [][]engine.Request{
			{{Type: "x", Key: "k"}},
			{{Type: "x"}, {Type: "x", Key: "k"}},
			{{Type: "x", Key: "k"}, {Type: "x", Key: "other"}},
		} {
			if receipts, err := n.Submit(t.Context(), reqs...); !errors.Is(err, engine.ErrBacklog) || receipts != nil {
				t.Errorf("got %+v, %v", receipts, err)
			}
		}
		if _, err := n.Cancel(t.Context(), task.Ref{ID: waiting[0]}, ""); err != nil { // room for one, not for two
			t.Fatal(err)
		}
		if receipts, err := n.Submit(t.Context(), engine.Request{Type: "x"}, engine.Request{Type: "x", Key: "k"}); !errors.Is(err, engine.ErrBacklog) {
			t.Errorf("got %+v, %v", receipts, err)
		}
		if after := count(); after != before || n.get(first).Key != "k" {
			t.Errorf("there are %d tasks, and were %d; the key of the first is %q", after, before, n.get(first).Key)
		}
		if receipts, err := n.Submit(t.Context(), engine.Request{Type: "x", Key: "k"}); err != nil || !receipts[0].Created {
			t.Errorf("got %+v, %v", receipts, err)
		}
	})
}

// inTx returns what SubmitTx answers in a transaction that commits whatever the answer is.
func (n *node) inTx(calls ...[]engine.Request) (receipts [][]engine.Receipt, errs []error) {
	n.t.Helper()
	err := n.store.Update(n.t.Context(), func(tx storage.Tx) error {
		for _, reqs := range calls {
			r, err := n.SubmitTx(n.t.Context(), tx, reqs...)
			receipts, errs = append(receipts, r), append(errs, err)
		}
		return nil
	})
	if err != nil {
		n.t.Fatal(err)
	}
	return receipts, errs
}

func TestACallInATransactionWithAThrottledRequestIsRefusedAsAWhole(t *testing.T) {
	for _, when := range []policy.WhenFull{policy.Reject, policy.DropOldest, policy.PauseSource} {
		inBubble(t, func(t *testing.T) {
			n, first, waiting := fullBehind(t, when)
			throttled := engine.Request{Type: "x", Key: "k"}
			refused := [][]engine.Request{{throttled}, {{Type: "x"}, throttled}, {throttled, {Type: "x", Key: "other"}}}
			receipts, errs := n.inTx(refused...)
			for i := range refused {
				if !errors.Is(errs[i], engine.ErrBacklog) || receipts[i] != nil {
					t.Errorf("%v: call %d: got %+v, %v", when, i, receipts[i], errs[i])
				}
			}
			for _, id := range waiting {
				n.expect(id, task.Submitted)
			}
			if got := n.get(first).Key; got != "k" {
				t.Errorf("%v: the first task has the key %q", when, got)
			}
			if _, err := n.Cancel(t.Context(), task.Ref{ID: waiting[0]}, ""); err != nil { // room for one, not for two
				t.Fatal(err)
			}
			receipts, errs = n.inTx([]engine.Request{{Type: "x"}, throttled}, []engine.Request{throttled}, []engine.Request{{Type: "x"}})
			if !errors.Is(errs[0], engine.ErrBacklog) || errs[1] != nil || !receipts[1][0].Created || !errors.Is(errs[2], engine.ErrBacklog) {
				t.Errorf("%v: room for one: %+v, %v", when, receipts, errs)
			}
			if got := n.get(first).Key; got != "" {
				t.Errorf("%v: two tasks have the key %q", when, got)
			}
		})
	}
}

// A task that exists needs no place, in a transaction of many calls as well.
func TestOnlyWhatATransactionAddsNeedsRoom(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		n, _, waiting := fullBehind(t, policy.Reject)
		exists := n.get(waiting[0]).ID
		if _, err := n.Cancel(t.Context(), task.Ref{ID: waiting[1]}, ""); err != nil {
			t.Fatal(err)
		}
		again := []engine.Request{{Type: "x", ID: exists}}
		_, errs := n.inTx(again, again, again, []engine.Request{{Type: "x"}}, again, []engine.Request{{Type: "x"}})
		if err := errors.Join(errs[:5]...); err != nil || !errors.Is(errs[5], engine.ErrBacklog) {
			t.Errorf("got %v", errs)
		}
	})
}
