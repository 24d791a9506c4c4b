package enginetest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/storage/storagetest"
	"github.com/taskengine/taskengine/task"
)

var faultScenarios = []scenario{
	{"a store that fails now and then loses and doubles nothing that was accepted", func(n *node) {
		w := newWeather(8, func(call storagetest.Call, fault error) storagetest.Fault {
			if call == storagetest.Get {
				return storagetest.Fault{} // the reads of the test itself
			}
			return storagetest.Fault{Before: fault}
		})
		gate := make(chan struct{})
		ids := stormy(n, w, until(gate)) // more than fit into memory
		close(gate)
		n.eventually("all but a few have begun in the storm", func() bool { return n.ledger.total() > len(ids)-20 })
		w.clear()
		n.ranOnce(ids...)
	}},
	{"a store that does not say whether it failed loses nothing that was accepted", func(n *node) {
		w := newWeather(4, unsaid)
		ids := stormy(n, w, done)
		w.clear()
		n.close()
		reopenHealthy(n)
		for _, id := range ids {
			t := n.expect(id, task.Done)
			if runs := n.ledger.runs(id); runs < 1 || runs > 1+len(t.History) {
				n.Errorf("%d runs, and the history is %+v", runs, t.History)
			}
		}
	}},
	{"a store that does not say whether it failed is looked at again without a restart", func(n *node) {
		w := newWeather(4, unsaid)
		ids := stormy(n, w, done)
		w.clear()
		n.ranOnce(ids...)
	}},
	{"a retry of which the store does not say whether it was kept is made once, without a restart", func(n *node) {
		w := newWeather(4, unsaid)
		ids := stormy(n, w, func(_ context.Context, t *task.Task) ([]byte, error) {
			if t.Attempt == 1 {
				return nil, task.RetryIn(10*time.Millisecond, errors.New("not yet"))
			}
			return nil, nil
		})
		w.clear()
		for _, id := range ids {
			if t := n.expect(id, task.Done); n.ledger.runs(id) != 2 || t.Attempt != 2 {
				n.Errorf("task %v was run %d times and counted %d attempts, want two", id, n.ledger.runs(id), t.Attempt)
			}
		}
	}},
	{"a store that breaks stops the engine and what was accepted is done after the next start", func(n *node) {
		w := newWeather(4, func(call storagetest.Call, fault error) storagetest.Fault {
			if call == storagetest.Update {
				return storagetest.Fault{After: fmt.Errorf("%w: %w", storage.ErrBroken, fault)}
			}
			return storagetest.Fault{}
		})
		w.after.Store(30)
		ids := stormy(n, w, done)
		receive(n, "the engine has failed", n.Failed())
		if err := n.Close(n.ctx); !errors.Is(err, engine.ErrFailed) || !errors.Is(err, errStorm) {
			n.Errorf("close: %v", err)
		}
		reopenHealthy(n)
		for _, id := range ids {
			n.expect(id, task.Done)
		}
		if err := n.WaitType(n.ctx, "mail"); err != nil { // tasks that were added without a receipt
			n.Error(err)
		}
	}},
}

var errStorm = errors.New("storm")

// unsaid makes a transaction return an error although it was committed.
func unsaid(call storagetest.Call, fault error) storagetest.Fault {
	if call == storagetest.Update {
		return storagetest.Fault{After: fault}
	}
	return storagetest.Fault{}
}

// weather decides which calls of a store fail: one in some, by a random sequence that is the same
// in every run.
type weather struct {
	fault func(storagetest.Call, error) storagetest.Fault
	after atomic.Int64 // how many calls are spared first
	quiet atomic.Bool

	mu    sync.Mutex
	rng   *rand.Rand // guarded by mu
	oneIn int
	fell  int // guarded by mu: how many calls were to fail
}

func newWeather(oneIn int, fault func(storagetest.Call, error) storagetest.Fault) *weather {
	w := &weather{fault: fault, oneIn: oneIn, rng: rand.New(rand.NewPCG(5, 7))}
	w.quiet.Store(true)
	return w
}

func (w *weather) decide(call storagetest.Call) storagetest.Fault {
	if w.quiet.Load() || w.after.Add(-1) >= 0 {
		return storagetest.Fault{}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.rng.IntN(w.oneIn) > 0 {
		return storagetest.Fault{}
	}
	f := w.fault(call, errStorm)
	if (f != storagetest.Fault{}) {
		w.fell++
	}
	return f
}

func (w *weather) clear() { w.quiet.Store(true) }

func (w *weather) faults() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.fell
}

// stormy is storm with some delayed tasks. It returns the tasks of all submitters.
func stormy(n *node, w *weather, h handle) []task.ID {
	n.Helper()
	return slices.Concat(storm(n, w, h, func(g, i int) engine.Request {
		r := engine.Request{Type: "mail", Key: fmt.Sprint(g, "/", i)}
		if i%4 == 0 {
			r.At = time.Now().Add(20 * time.Millisecond)
		}
		return r
	})...)
}

// stormSubmitters is how many submit at the same time in a storm.
const stormSubmitters = 6

// storm opens the engine on a store that fails, and submits tasks until each is accepted or the
// engine has failed: each submitter one after the other, as request says. It returns the accepted tasks
// of each.
func storm(n *node, w *weather, h handle, request func(submitter, i int) engine.Request) [][]task.ID {
	n.Helper()
	n.config.Store = storagetest.Faulty(n.store, w.decide)
	n.config.LookAhead, n.config.QueueLookAhead = 50, 20 // so that it has to read, too
	n.start(types(10, func(p *policy.Type) { p.MaxCrashes = 0 }, "mail"), map[string]handle{"mail": h})
	w.quiet.Store(false)
	const each = 40
	accepted := make([][]task.ID, stormSubmitters)
	var wg sync.WaitGroup
	for g := range stormSubmitters {
		wg.Go(func() {
			for i := range each {
				r := request(g, i)
				for n.ctx.Err() == nil {
					receipts, err := n.Submit(n.ctx, r)
					if errors.Is(err, engine.ErrFailed) {
						return
					}
					if err == nil {
						accepted[g] = append(accepted[g], receipts[0].ID)
						break
					}
				}
			}
		})
	}
	wg.Wait()
	tasks := len(slices.Concat(accepted...))
	if w.faults() == 0 || tasks == 0 {
		n.Errorf("%d faults and %d tasks are no storm", w.faults(), tasks)
	}
	n.Logf("%d calls failed, %d tasks were accepted", w.faults(), tasks)
	return accepted
}

// reopenHealthy opens a new engine on the store without faults.
func reopenHealthy(n *node) {
	n.Helper()
	n.config.Store = n.store
	n.reopenStore()
	n.open()
}
