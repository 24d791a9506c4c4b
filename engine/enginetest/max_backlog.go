package enginetest

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

// maxBacklogScenarios are about policy.Backlog. On a store that other programs may write to, the
// engine counts about once a second; these scenarios have one node, which knows its own tasks,
// except while a count and its own calls overlap.
var maxBacklogScenarios = []scenario{
	{"many submitters do not exceed the maximum of a backlog", func(n *node) { crowd(n, policy.Backlog{Max: 50}) }},
	{"many submitters do not exceed the maximum of a backlog whose oldest tasks are dropped", func(n *node) {
		crowd(n, policy.Backlog{Max: 50, WhenFull: policy.DropOldest})
	}},
	{"many submitters do not exceed the maximum of a backlog whose sources pause, and none is refused", func(n *node) {
		crowd(n, policy.Backlog{Max: 50, WhenFull: policy.PauseSource})
		if got := n.Backlogs()[0]; got.Refused != 0 || got.Waiting != 0 {
			n.Errorf("got %+v", got)
		}
	}},
	{"the maximum of a backlog holds after a restart, and the tasks that had no room are not there", func(n *node) {
		release := make(chan struct{})
		n.start(capped(policy.Backlog{Max: 10}), map[string]handle{"mail": until(release)})
		ids := n.submit(repeat(8, mail)...)
		if _, err := n.Submit(n.ctx, repeat(11, mail)...); !errors.Is(err, engine.ErrBacklog) {
			n.Errorf("eleven at once: %v", err)
		}
		ended, cancel := context.WithCancel(n.ctx)
		cancel()
		_ = n.Close(ended) // as after a crash, the tasks that ran are still processing
		n.reopenStore()
		n.open()
		n.eventually("one of them runs again", func() bool { return n.Backlogs()[0].Tasks == 7 && n.stored("mail") == 7 })
		have := n.stored("mail")
		for ; have < 10; have++ {
			ids = append(ids, n.submit(mail(0))...)
		}
		if _, err := n.Submit(n.ctx, mail(0)); !errors.Is(err, engine.ErrBacklog) {
			n.Errorf("one more than the maximum after a restart: %v (the store has %d)", err, n.stored("mail"))
		}
		close(release)
		n.wait(ids...)
		n.eventually("there is room again", func() bool {
			receipts, err := n.Submit(n.ctx, mail(0))
			if err == nil {
				ids = append(ids, receipts[0].ID)
			}
			return err == nil
		})
		n.wait(ids...)
	}},
	{"a repeated submit finds its task though the backlog is full", func(n *node) {
		release := make(chan struct{})
		n.start(capped(policy.Backlog{Max: 3}), map[string]handle{"mail": until(release)})
		keyed := engine.Request{Type: "mail", Key: "k", At: time.Now().Add(time.Hour)}
		id := n.submit(keyed)[0]
		n.submit(repeat(2, func(int) engine.Request { return engine.Request{Type: "mail", At: time.Now().Add(time.Hour)} })...)
		receipts, err := n.Submit(n.ctx, keyed)
		if err != nil || receipts[0].Created || receipts[0].ID != id {
			n.Errorf("got %+v, %v", receipts, err)
		}
		if _, err := n.Submit(n.ctx, keyed, engine.Request{Type: "mail", Key: "new"}); !errors.Is(err, engine.ErrBacklog) {
			n.Errorf("with a new one: %v", err)
		}
		if got := n.stored("mail"); got != 3 {
			n.Errorf("the store has %d tasks that have not started, want 3", got)
		}
		close(release)
	}},
	{"a throttled request in a transaction that finds no room adds nothing, and no task gives up its key", throttleInFull},
	{"the tasks that are dropped are the oldest, and none that has started", func(n *node) {
		release := make(chan struct{})
		n.start(capped(policy.Backlog{Max: 5, WhenFull: policy.DropOldest}), map[string]handle{"mail": until(release)})
		running := n.submit(mail(0))[0]
		n.eventually("it runs", func() bool { return n.ledger.runs(running) == 1 })
		var ids []task.ID
		for range 12 {
			ids = append(ids, n.submit(mail(0))...)
		}
		for i, id := range ids {
			if want := i < 7; n.get(id).State == task.Cancelled != want {
				n.Errorf("task %d is %v", i, n.get(id).State)
			}
		}
		if got := n.Backlogs()[0]; got.Dropped != 7 {
			n.Errorf("got %+v", got)
		}
		close(release)
		n.expect(running, task.Done)
		n.wait(ids...)
	}},
}

func mail(int) engine.Request { return engine.Request{Type: "mail"} }

// capped returns policies of a type with a maximum of its backlog, of which one task runs at a time.
func capped(b policy.Backlog) policy.Set {
	return types(10, func(p *policy.Type) { p.MaxBacklog, p.Concurrency = b, 1 }, "mail")
}

// stored returns the number of tasks of a type in the store that are waiting or submitted.
func (n *node) stored(typ string) (tasks int) {
	n.Helper()
	counts, err := n.Count(n.ctx, storage.Filter{States: []task.State{task.Waiting, task.Submitted}, Types: []string{typ}})
	if err != nil {
		n.Fatal(err)
	}
	for _, some := range counts {
		tasks += int(some)
	}
	return tasks
}

func throttleInFull(n *node) {
	release := make(chan struct{})
	set := capped(policy.Backlog{Max: 2})
	p := set.Types["mail"]
	p.Unique.OnConflict, p.Unique.Window = policy.ThrottleNew, time.Microsecond
	set.Types["mail"] = p
	n.start(set, map[string]handle{"mail": until(release)})
	keyed := engine.Request{Type: "mail", Key: "k", At: time.Now().Add(time.Hour)}
	first := n.submit(keyed)[0]
	if _, err := n.Cancel(n.ctx, task.Ref{ID: first}, ""); err != nil {
		n.Fatal(err)
	}
	later := func(int) engine.Request { return engine.Request{Type: "mail", At: time.Now().Add(time.Hour)} }
	n.submit(later(0))
	var got []engine.Receipt
	add := func(calls ...[]engine.Request) error {
		return n.store.Update(n.ctx, func(tx storage.Tx) (err error) {
			for _, reqs := range calls {
				if got, err = n.SubmitTx(n.ctx, tx, reqs...); err != nil {
					return err
				}
			}
			return nil
		})
	}
	for _, calls := range [][][]engine.Request{{{later(0), keyed}}, {{keyed, later(0)}}, {{later(0)}, {keyed}}, {{keyed}, {later(0)}}} {
		if err := add(calls...); !errors.Is(err, engine.ErrBacklog) {
			n.Errorf("got %v", err)
		}
		if key, stored := n.get(first).Key, n.stored("mail"); key != "k" || stored != 1 {
			n.Errorf("the first task has the key %q, and %d tasks have not started", key, stored)
		}
	}
	if err := add([]engine.Request{keyed}); err != nil || !got[0].Created || n.get(got[0].ID).Key != "k" || n.get(first).Key != "" {
		n.Errorf("where there is room: %+v, %v", got, err)
	}
	close(release)
}

// crowd has many submit at once while tasks run, and checks that the backlog never exceeds its
// maximum.
func crowd(n *node, b policy.Backlog) {
	const submitters, largest = 20, 4
	most := b.Max
	if _, isShared := n.store.(storage.Shared); isShared {
		most += submitters * largest // a count may lack the calls that are under way
	}
	n.start(capped(b), map[string]handle{"mail": done})
	var all sync.WaitGroup
	var mu sync.Mutex
	var ids []task.ID // guarded by mu
	for i := range submitters {
		all.Go(func() {
			for k := range 25 {
				receipts, err := n.Submit(n.ctx, repeat(1+(i+k)%largest, func(j int) engine.Request {
					r := mail(0)
					if j > 0 {
						r.At = time.Now().Add(50 * time.Millisecond)
					}
					return r
				})...)
				if err != nil && !errors.Is(err, engine.ErrBacklog) {
					n.Errorf("submit: %v", err)
				}
				mu.Lock()
				for _, r := range receipts {
					ids = append(ids, r.ID)
				}
				mu.Unlock()
				if k%5 == 0 {
					if got := n.stored("mail"); got > most {
						n.Errorf("%d tasks have not started, of %d", got, most)
					}
				}
			}
		})
	}
	all.Wait()
	n.wait(ids...)
}
