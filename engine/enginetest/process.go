package enginetest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/storage/storagetest"
	"github.com/taskengine/taskengine/task"
)

// processScenarios are about tasks that send a request, and wait for the reply.
var processScenarios = []scenario{
	{"of a signal and the time at the same moment, one ends each of thousands of waits", racesTimeouts}, // X3
	{"two tasks with one key wait for a message each, and the cancel of one leaves the other", func(n *node) { // X6
		n.start(types(10, nil, "bill", "ship"), map[string]handle{"bill": untilPaid(time.Hour), "ship": untilPaid(time.Hour)})
		for _, key := range []string{"both", "one"} {
			bill, ship := n.awaiting(engine.Request{Type: "bill", Key: key}), n.awaiting(engine.Request{Type: "ship", Key: key})
			want := engine.SignalWoke
			if key == "one" {
				if _, err := n.Cancel(n.ctx, task.Ref{ID: bill}, "not wanted"); err != nil {
					n.Fatal(err)
				}
				want = engine.SignalTaskEnded
			}
			n.signaled(engine.Signal{Type: "bill", Key: key, Name: "paid"}, want)
			n.signaled(engine.Signal{Type: "ship", Key: key, Name: "paid"}, engine.SignalWoke)
			if n.expect(ship, task.Done); want == engine.SignalWoke {
				n.expect(bill, task.Done)
			}
		}
	}},
	{"with the cancel of a task that waits, its state is deleted, and a late reply finds nothing", func(n *node) { // X7
		n.start(types(10, func(p *policy.Type) { p.Retention.Cancelled = 0 }, "order", "child"), map[string]handle{
			"order": func(_ context.Context, t *task.Task) ([]byte, error) {
				return nil, task.WaitFor([]string{"paid"}, time.Now().Add(time.Hour), task.WithCheckpoint([]byte("state")),
					task.WithChildren("c", engine.Request{Type: "child", At: time.Now().Add(time.Hour)}))
			},
			"child": done,
		})
		id := n.awaiting(engine.Request{Type: "order", Key: "7"})
		n.signaled(engine.Signal{To: id, Name: "other", Keep: true}, engine.SignalKept)
		child := n.childOf(id, "c", 0)
		if tree, err := n.CancelTree(n.ctx, id, engine.TreeCancel{}); err != nil || tree.Cancelled != 2 {
			n.Fatalf("%+v, %v", tree, err)
		}
		for _, gone := range []task.ID{id, child} {
			if _, err := n.Engine.Get(n.ctx, gone); !errors.Is(err, task.ErrNotFound) {
				n.Errorf("after the cancel: %v", err)
			}
		}
		for _, late := range []engine.Signal{{To: id, Name: "paid", Keep: true}, {Type: "order", Key: "7", Name: "paid", Keep: true}} {
			if outcome, _, err := n.Signal(n.ctx, late); !errors.Is(err, task.ErrNotFound) {
				n.Errorf("a late reply: %v, %v", outcome, err)
			}
		}
		n.noSignalsOnTheWay()
	}},
	{"a process that is stopped before or after any of its writes is done after the next start, and leaves nothing behind", stopsAnywhere}, // X8
	{"no reply comes before the transaction that asks for it has committed", asksByTx},                                                     // X9
	{"a task that cannot deal with the end of its wait is in error after its attempts, and waits for a person", func(n *node) { // X11
		const attempts = 3
		n.start(types(10, func(p *policy.Type) { p.Retry.Max = attempts }, "order"), map[string]handle{"order": func(_ context.Context, t *task.Task) ([]byte, error) {
			if t.Woken().By == task.ByTimeout {
				return nil, errNo
			}
			return nil, task.WaitFor([]string{"paid"}, time.Now().Add(10*time.Millisecond))
		}})
		id := n.submit(engine.Request{Type: "order"})[0]
		n.eventually("it is in error", func() bool { return n.get(id).State == task.Error })
		t := n.get(id)
		if t.Attempt != attempts || n.ledger.runs(id) != 1+attempts || !t.NextEventAt.IsZero() || t.Woken().By != task.ByTimeout {
			n.Errorf("after %d runs it has %d attempts, is due at %v, and was woken by %v", n.ledger.runs(id), t.Attempt, t.NextEventAt, t.Woken().By)
		}
		n.signaled(engine.Signal{To: id, Name: "paid"}, engine.SignalDropped)
	}},
}

// racesTimeouts has signals come at the moment at which waits end by their time. Each sender sends the next one later if the signal
// was first, and otherwise earlier.
func racesTimeouts(n *node) {
	const senders, each = 40, 50
	type sender struct {
		patience, rest time.Duration // of the next wait, and before the signal
		began          chan struct{}
	}
	all := make([]sender, senders)
	n.start(types(200, nil, "order"), map[string]handle{"order": func(_ context.Context, t *task.Task) ([]byte, error) {
		if w := t.Woken(); w.By != task.NotWoken {
			return []byte(w.By.String()), nil
		}
		of := &all[t.Payload[0]]
		until := time.Now().Add(of.patience)
		of.began <- struct{}{}
		return nil, task.WaitFor([]string{"paid"}, until)
	}})
	var signals, timeouts atomic.Int64
	var wg sync.WaitGroup
	for i := range all {
		of := &all[i]
		of.patience, of.rest, of.began = 15*time.Millisecond, 15*time.Millisecond, make(chan struct{}, 1)
		wg.Go(func() {
			for range each {
				receipts, err := n.Submit(n.ctx, engine.Request{Type: "order", Payload: []byte{byte(i)}})
				if err != nil {
					n.Error(err)
					return
				}
				receive(n, "the task waits", of.began)
				if time.Sleep(of.rest); n.racesTimeout(receipts[0].ID) {
					signals.Add(1)
					of.rest += of.patience / 20
				} else {
					timeouts.Add(1)
					of.rest -= of.rest / 10
					if of.patience += of.patience / 50; signals.Load() == 0 { // a slow machine has not begun to wait before the time is over
						of.patience += of.patience / 4
					}
				}
			}
		})
	}
	wg.Wait()
	if n.Logf("%d waits ended by signals, and %d by their time", signals.Load(), timeouts.Load()); signals.Load() == 0 || timeouts.Load() == 0 {
		n.Error("it is no race")
	}
}

// racesTimeout signals a task that waits for a moment, and reports whether the signal ended the wait.
func (n *node) racesTimeout(id task.ID) (woke bool) {
	s := engine.Signal{To: id, Name: "paid", ID: id}
	outcome, _, err := n.Signal(n.ctx, s)
	for errors.Is(err, storage.ErrBusy) { // nothing was done
		outcome, _, err = n.Signal(n.ctx, s)
	}
	if err == nil {
		err = n.WaitTasks(n.ctx, id)
	}
	t, failed := n.Engine.Get(n.ctx, id)
	if err = errors.Join(err, failed); err != nil {
		n.Error(err)
		return false
	}
	got := string(t.Result)
	if woke = outcome == engine.SignalWoke; t.State != task.Done || n.ledger.runs(id) != 2 || woke != (got == "signal") || !woke && got != "timeout" {
		n.Errorf("a task is %v after %d runs, woken by %q, and the signal to it was %v", t.State, n.ledger.runs(id), got, outcome)
	}
	return woke
}

// stopsAnywhere stops the engine at each commit of a process in turn: before it, and after it without an answer. The process adds
// children, waits for them, sends a message to another task, and waits for the reply of that.
func stopsAnywhere(n *node) {
	var stop breaker
	n.config.Store = storagetest.Faulty(n.store, stop.decide)
	handlers := map[string]handle{
		"process": func(_ context.Context, t *task.Task) ([]byte, error) {
			switch string(t.Checkpoint()) {
			case "":
				child := engine.Request{Type: "child"}
				return nil, task.WaitForChildren([]task.ChildrenWait{{Name: "c"}}, time.Time{}, task.WithCheckpoint([]byte("joins")), task.WithChildren("c", child, child))
			case "joins":
				if got := string(counts(t, "c")); got != "children: 2 of 2 done, 0 failed, 0 cancelled" {
					return nil, task.Permanent(errors.New(got))
				}
				ask := task.SignalRequest{Type: "server", Key: t.Key, Name: "asked", Data: []byte(t.Key), Keep: true}
				return nil, task.WaitFor([]string{"answer"}, time.Time{}, task.WithCheckpoint([]byte("asks")), task.WithSignals(ask))
			}
			return t.Woken().Signal.Data, nil
		},
		"server": func(_ context.Context, t *task.Task) ([]byte, error) {
			w := t.Woken()
			if w.By != task.BySignal {
				return nil, task.WaitFor([]string{"asked"}, time.Time{})
			}
			return nil, task.Again(time.Time{}, task.WithSignals(task.SignalRequest{Type: "process", Key: string(w.Signal.Data), Name: "answer", Data: []byte("yes"), Keep: true}))
		},
		"child": done,
	}
	n.start(types(10, untilDone, "process", "server", "child"), handlers)
	stops := 0
	for at := int64(1); ; at++ {
		before := stops
		for _, after := range []bool{false, true} {
			key := fmt.Sprint(at, after)
			stop.arm(at, after)
			if n.carriesThrough(&stop, engine.Request{Type: "server", Key: key}, engine.Request{Type: "process", Key: key}) {
				stops++
			}
		}
		if stops == before || n.T.Failed() { // the process has fewer commits
			break
		}
	}
	stop.arm(0, false)
	n.Logf("stopped %d times", stops)
	if stops < 10 {
		n.Errorf("it was stopped %d times", stops)
	}
	n.noSignalsOnTheWay()
	page, err := n.store.(storage.Inspector).List(n.ctx, storage.ListQuery{Filter: storage.Filter{States: []task.State{task.Waiting, task.Submitted, task.Processing, task.Error, task.Failed}}, Limit: 10, Scan: 100_000})
	rows := page.Tasks
	if err != nil || len(rows) > 0 {
		n.Errorf("left behind: %v, %v", rows, err)
	}
}

// carriesThrough submits tasks, which have keys, until they are accepted, and waits until they are done. It opens the engine again
// when it stops, and reports that.
func (n *node) carriesThrough(b *breaker, reqs ...engine.Request) (stopped bool) {
	n.Helper()
	restart := func(err error) {
		n.Helper()
		stopped = true
		receive(n, fmt.Sprintf("the engine has failed after %v", err), n.Failed())
		if err := n.Close(n.ctx); !errors.Is(err, errStorm) {
			n.Errorf("close: %v", err)
		}
		b.arm(0, false)
		n.open()
	}
	receipts, err := n.Submit(n.ctx, reqs...)
	for ; err != nil; receipts, err = n.Submit(n.ctx, reqs...) {
		restart(err)
	}
	for _, r := range receipts {
		var t *task.Task
		for t == nil {
			err := n.WaitTasks(n.ctx, r.ID)
			if err == nil {
				t, err = n.Engine.Get(n.ctx, r.ID)
			}
			if err != nil {
				restart(err)
			}
		}
		if t.State != task.Done || t.Type == "process" && string(t.Result) != "yes" {
			n.Errorf("%v with %q", t, t.Result)
		}
	}
	return stopped
}

// breaker has a store fail for good at one of its commits.
type breaker struct {
	mu    sync.Mutex
	left  int64 // guarded by mu: commits until it fails; 0 if it does not
	after bool  // guarded by mu: the commit is made, and its answer lost
	dead  bool  // guarded by mu
}

// arm has the store fail at a commit from now on; 0 is none.
func (b *breaker) arm(at int64, after bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.left, b.after, b.dead = at, after, false
}

func (b *breaker) decide(call storagetest.Call) storagetest.Fault {
	b.mu.Lock()
	defer b.mu.Unlock()
	broken := fmt.Errorf("%w: %w", storage.ErrBroken, errStorm)
	if b.dead {
		return storagetest.Fault{Before: broken}
	}
	if call != storagetest.Update || b.left == 0 {
		return storagetest.Fault{}
	}
	if b.left--; b.left > 0 {
		return storagetest.Fault{}
	}
	if b.dead = true; b.after {
		return storagetest.Fault{After: broken}
	}
	return storagetest.Fault{Before: broken}
}

// asksByTx has a task ask another one for a reply, and wait for it, in one transaction, which is rolled back first.
func asksByTx(n *node) {
	var asks atomic.Bool // the transaction commits
	n.start(types(10, untilDone, "process", "server"), map[string]handle{
		"process": func(ctx context.Context, t *task.Task) ([]byte, error) {
			if w := t.Woken(); w.By != task.NotWoken {
				return w.Signal.Data, nil
			}
			return nil, n.store.Update(ctx, func(tx storage.Tx) error {
				err := errors.Join(
					n.opened().SignalTx(ctx, tx, engine.Signal{Type: "server", Key: "s", Name: "asked", Data: []byte(t.ID.String())}),
					engine.WaitTx(ctx, tx, nil, []string{"answer"}, time.Time{}))
				time.Sleep(10 * time.Millisecond) // a message that does not wait for the commit arrives
				if t.Attempt == 1 {
					return errors.Join(err, errNo)
				}
				asks.Store(err == nil)
				return err
			})
		},
		"server": func(_ context.Context, t *task.Task) ([]byte, error) {
			w := t.Woken()
			if w.By != task.BySignal {
				return nil, task.WaitFor([]string{"asked"}, time.Time{})
			}
			if !asks.Load() {
				n.Error("the request came before its transaction has committed")
			}
			to, err := task.ParseID(string(w.Signal.Data))
			if err != nil {
				return nil, err
			}
			return nil, task.Again(time.Time{}, task.WithSignals(task.SignalRequest{To: to, Name: "answer", Data: []byte("yes")})) // it is not kept
		},
	})
	n.awaiting(engine.Request{Type: "server", Key: "s"})
	id := n.submit(engine.Request{Type: "process"})[0]
	if n.wait(id); string(n.expect(id, task.Done).Result) != "yes" {
		n.Errorf("the reply is %q", n.get(id).Result)
	}
	n.noSignalsOnTheWay()
}
