package enginetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/storage/storagetest"
	"github.com/taskengine/taskengine/task"
)

var signalScenarios = []scenario{
	{"a signal that comes in time ends a wait, and then no timeout does", func(n *node) { // X1
		n.start(types(10, nil, "order"), map[string]handle{"order": untilPaid(time.Hour)})
		id := n.awaiting(engine.Request{Type: "order"})
		n.signaled(engine.Signal{To: id, Name: "paid", Data: []byte("42")}, engine.SignalWoke)
		n.wait(id)
		if got := n.expect(id, task.Done); string(got.Result) != "signal paid 42" {
			n.Errorf("the result is %q", got.Result)
		}
		n.signaled(engine.Signal{To: id, Name: "paid", Keep: true}, engine.SignalTaskEnded)
	}},
	{"without a signal a wait ends once, by its time, and a late signal is dropped", func(n *node) { // X2, X4
		gate := make(chan struct{})
		n.start(types(10, nil, "order"), map[string]handle{"order": func(ctx context.Context, t *task.Task) ([]byte, error) {
			if t.Woken().By != task.NotWoken {
				<-gate
			}
			return untilPaid(10*time.Millisecond)(ctx, t)
		}})
		id := n.submit(engine.Request{Type: "order"})[0]
		n.eventually("the wait is over", func() bool { return n.get(id).Woken().By == task.ByTimeout })
		n.signaled(engine.Signal{To: id, Name: "paid"}, engine.SignalDropped)
		close(gate)
		n.wait(id)
		if got := n.expect(id, task.Done); string(got.Result) != "timeout  " {
			n.Errorf("the result is %q", got.Result)
		}
	}},
	{"of a signal, the time and a cancel, one ends a wait, whatever comes at the same time", endsOnce}, // I5
	{"a task is found by its key, and gets a signal of an ID once", func(n *node) { // X5
		n.start(types(10, nil, "order"), map[string]handle{"order": untilPaid(time.Hour)})
		id := n.awaiting(engine.Request{Type: "order", Key: "7"})
		s := engine.Signal{Type: "order", Key: "7", Name: "seen", ID: task.ID{1}, Keep: true}
		n.signaled(s, engine.SignalKept)
		n.close()
		n.reopenStore()
		n.open()
		n.signaled(s, engine.SignalRepeated)
		s.ID, s.Name = task.ID{2}, "paid"
		n.signaled(s, engine.SignalWoke)
		n.wait(id)
		s.Key = "8"
		if _, _, err := n.Signal(n.ctx, s); !errors.Is(err, task.ErrNotFound) {
			n.Errorf("a signal to a key without a task: %v", err)
		}
	}},
	{"a cancel of a task drops its signals, and later ones", func(n *node) {
		n.start(types(10, nil, "order"), map[string]handle{"order": untilPaid(time.Hour)})
		id := n.awaiting(engine.Request{Type: "order"})
		n.signaled(engine.Signal{To: id, Name: "other", Keep: true}, engine.SignalKept)
		if _, err := n.Cancel(n.ctx, task.Ref{ID: id}, "not wanted"); err != nil {
			n.Fatal(err)
		}
		n.signaled(engine.Signal{To: id, Name: "paid", Keep: true}, engine.SignalTaskEnded)
		if got := n.expect(id, task.Cancelled); got.Signals != nil {
			n.Errorf("it has %+v", got.Signals)
		}
	}},
	{"what cannot be sent or waited for is refused", func(n *node) {
		n.start(types(10, nil, "order"), map[string]handle{"order": func(_ context.Context, t *task.Task) ([]byte, error) {
			return nil, task.WaitFor(strings.Split(string(t.Payload), ","), time.Time{})
		}})
		for _, payload := range []string{"", "a,", strings.Repeat("x", task.MaxSignalName+1), strings.Repeat("a,", task.MaxAwaited) + "a", "a\n"} {
			id := n.submit(engine.Request{Type: "order", Payload: []byte(payload)})[0]
			n.wait(id)
			if got := n.expect(id, task.Error); !strings.Contains(got.LastError, "wait for a signal") {
				n.Errorf("%q: %s", payload, got.LastError)
			}
		}
		id := n.awaiting(engine.Request{Type: "order", Payload: []byte("paid")})
		for name, s := range map[string]engine.Signal{
			"no name":     {To: id},
			"no task":     {Name: "paid"},
			"no key":      {Name: "paid", Type: "order"},
			"large data":  {To: id, Name: "paid", Data: make([]byte, 2<<20)},
			"a long name": {To: id, Name: strings.Repeat("x", task.MaxSignalName+1)},
		} {
			if _, _, err := n.Signal(n.ctx, s); !errors.Is(err, engine.ErrInvalid) {
				n.Errorf("%s: %v", name, err)
			}
		}
		for name, s := range map[string]engine.Signal{
			"a task that does not exist": {To: task.ID{9}, Name: "paid"},
			"a task of another type":     {To: id, Type: "payment", Name: "paid"},
		} {
			if _, _, err := n.Signal(n.ctx, s); !errors.Is(err, task.ErrNotFound) {
				n.Errorf("%s: %v", name, err)
			}
		}
	}},
	{"a task expires while it waits for a signal", func(n *node) {
		n.start(types(10, nil, "order"), map[string]handle{"order": untilPaid(time.Hour)})
		id := n.submit(engine.Request{Type: "order", ExpiresAt: time.Now().Add(300 * time.Millisecond)})[0]
		n.wait(id)
		if n.expect(id, task.Error); n.ledger.runs(id) > 1 {
			n.Errorf("its handler was called %d times", n.ledger.runs(id))
		}
	}},
	{"fifty signals to one task at the same time are seen once each", func(n *node) { gathers(n, nil) }}, // X10
	{"signals are seen once each, though the store fails now and then", func(n *node) {
		gathers(n, newWeather(6, func(call storagetest.Call, fault error) storagetest.Fault {
			if call == storagetest.Get {
				return storagetest.Fault{}
			}
			return storagetest.Fault{Before: fault}
		}))
	}},
	{"signals are seen once each, though the store does not say whether it failed", func(n *node) { gathers(n, newWeather(4, unsaid)) }},
}

// untilPaid waits for a signal, and returns the cause of the end of the wait.
func untilPaid(d time.Duration) handle {
	return func(_ context.Context, t *task.Task) ([]byte, error) {
		if w := t.Woken(); w.By != task.NotWoken {
			return fmt.Appendf(nil, "%v %s %s", w.By, w.Signal.Name, w.Signal.Data), nil
		}
		return nil, task.WaitFor([]string{"paid", "refused"}, time.Now().Add(d))
	}
}

// awaiting submits a task, and returns when it waits for a signal.
func (n *node) awaiting(r engine.Request) task.ID {
	n.Helper()
	id := n.submit(r)[0]
	n.eventually("the task waits for a signal", func() bool { return n.get(id).Awaits() != nil })
	return id
}

// signaled sends a signal, and checks the outcome.
func (n *node) signaled(s engine.Signal, want engine.SignalOutcome) {
	n.Helper()
	if got, _, err := n.Signal(n.ctx, s); err != nil || got != want {
		n.Errorf("the signal %q: %v, %v, want %v", s.Name, got, err, want)
	}
}

// endsOnce ends waits by signals, their time and users at about the same time.
func endsOnce(n *node) {
	const tasks = 60
	n.start(types(10, nil, "order"), map[string]handle{"order": untilPaid(30 * time.Millisecond)})
	ids := n.submit(repeat(tasks, func(int) engine.Request { return engine.Request{Type: "order"} })...)
	woke, cancelled := make([]string, tasks), make([]bool, tasks)
	var wg sync.WaitGroup
	for i, id := range ids {
		rng := rand.New(rand.NewPCG(uint64(i), 3))
		wait := func() { time.Sleep(time.Duration(rng.IntN(60)) * time.Millisecond) }
		wg.Go(func() {
			for k := range 4 {
				wait()
				data := fmt.Sprint(i, "-", k)
				outcome, _, err := n.Signal(n.ctx, engine.Signal{To: id, Name: []string{"paid", "refused"}[k%2], Data: []byte(data)})
				for errors.Is(err, storage.ErrBusy) { // nothing was done
					outcome, _, err = n.Signal(n.ctx, engine.Signal{To: id, Name: []string{"paid", "refused"}[k%2], Data: []byte(data)})
				}
				if err != nil {
					n.Errorf("a signal to task %d: %v", i, err)
				}
				if outcome == engine.SignalWoke {
					woke[i] += data
				}
			}
		})
		if i%3 > 0 {
			continue
		}
		pause := time.Duration(rand.New(rand.NewPCG(uint64(i), 4)).IntN(60)) * time.Millisecond
		wg.Go(func() {
			time.Sleep(pause)
			_, err := n.Cancel(n.ctx, task.Ref{ID: id}, "")
			if cancelled[i] = err == nil; err != nil && !errors.Is(err, engine.ErrNotAllowed) {
				n.Errorf("a cancel of task %d: %v", i, err)
			}
		})
	}
	wg.Wait()
	n.wait(ids...)
	ends := map[string]int{}
	for i, id := range ids {
		t := n.get(id)
		by, data, _ := strings.Cut(string(t.Result), " ")
		ends[by+" "+t.State.String()]++
		switch {
		case t.State == task.Cancelled:
			if !cancelled[i] {
				n.Errorf("task %d is cancelled, and nobody has done so", i)
			}
		case t.State != task.Done || cancelled[i]:
			n.Errorf("task %d is %v, cancelled %v", i, t.State, cancelled[i])
		case by == "signal" && (woke[i] == "" || !strings.HasSuffix(data, woke[i])) || by == "timeout" && woke[i] != "":
			n.Errorf("task %d was woken by %q, and the senders say %q", i, t.Result, woke[i])
		}
	}
	n.Logf("waits ended by: %v", ends)
}

// gathers sends signals to tasks that gather them one after the other, in a weather: senders repeat each signal until they
// have an answer.
func gathers(n *node, w *weather) {
	const tasks, each = 4, 50
	if w != nil {
		n.config.Store = storagetest.Faulty(n.store, w.decide)
	}
	n.start(types(10, nil, "gather"), map[string]handle{"gather": func(_ context.Context, t *task.Task) ([]byte, error) {
		got := bytes.Clone(t.Checkpoint())
		if wake := t.Woken(); wake.By == task.BySignal {
			got = append(append(got, wake.Signal.Data...), ' ')
		}
		if bytes.Count(got, []byte{' '}) == each {
			return got, nil
		}
		return nil, task.WaitFor([]string{"part"}, time.Time{}, task.WithCheckpoint(got))
	}})
	ids := n.submit(repeat(tasks, func(int) engine.Request { return engine.Request{Type: "gather"} })...)
	if w != nil {
		w.quiet.Store(false)
	}
	var wg sync.WaitGroup
	for k := range each {
		wg.Go(func() {
			for i, id := range ids {
				s := engine.Signal{To: id, Name: "part", Data: fmt.Appendf(nil, "%d-%d", i, k), Keep: true, ID: task.ID{byte(i), byte(k), 1}}
				for {
					outcome, _, err := n.Signal(n.ctx, s)
					if n.ctx.Err() != nil {
						n.Errorf("signal %s: %v", s.Data, err)
						return
					}
					if outcome == engine.SignalDropped || outcome == engine.SignalNoRoom {
						n.Errorf("signal %s was lost: %v", s.Data, outcome)
					}
					if err == nil {
						break
					}
				}
			}
		})
	}
	wg.Wait()
	if w != nil {
		w.clear()
	}
	n.wait(ids...)
	for i, id := range ids {
		got := strings.Fields(string(n.expect(id, task.Done).Result))
		if slices.Sort(got); len(slices.Compact(got)) != each {
			n.Errorf("task %d has gathered %d different signals: %v", i, len(slices.Compact(got)), got)
		}
	}
}
