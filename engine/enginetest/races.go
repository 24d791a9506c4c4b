package enginetest

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

// racers is how many tasks take part in each race.
const racers = 150

var raceScenarios = []scenario{
	{"of a verb and the timer exactly one gets the task", func(n *node) {
		n.start(types(20, nil, "mail"), map[string]handle{"mail": done})
		for _, v := range verbs() {
			base := time.Now().Add(100 * time.Millisecond)
			due := func(i int) time.Time { return base.Add(time.Duration(i%30) * time.Millisecond) }
			ids := n.submit(repeat(racers, func(i int) engine.Request { return engine.Request{Type: "mail", At: due(i)} })...)
			race(n, v, ids, func(i int) { <-time.After(time.Until(due(i))) })
		}
	}},
	{"of a verb and the grab exactly one gets the task", func(n *node) {
		gate := make(chan chan struct{}, 1) // the gate of the next task
		n.start(types(2, nil, "mail", "gate"), map[string]handle{"mail": done, "gate": func(ctx context.Context, t *task.Task) ([]byte, error) {
			return until(<-gate)(ctx, t)
		}})
		for _, v := range verbs() {
			opens := make(chan struct{})
			gate <- opens
			first := n.submit(engine.Request{Type: "gate"})
			n.eventually("the gate is shut", func() bool { return len(gate) == 0 })
			gate <- opens
			second := n.submit(engine.Request{Type: "gate"})
			n.eventually("the gate is shut", func() bool { return len(gate) == 0 })
			ids := n.submit(repeat(racers, func(int) engine.Request { return engine.Request{Type: "mail"} })...)
			before := n.ledger.total()
			close(opens)
			race(n, v, ids, func(i int) { // one after the other, while the engine grabs them
				for n.ledger.total() < before+i/2 && n.ledger.runs(ids[i]) == 0 && n.ctx.Err() == nil {
					time.Sleep(50 * time.Microsecond)
				}
			})
			n.ranOnce(first[0], second[0])
		}
	}},
	{"of a cancel and the answer exactly one counts", answerRace},
	{"of several verbs at one version exactly one wins", verbsRace},
}

// insist gives an order again while the store refuses it because other transactions are in the way: nothing was done then.
func insist(n *node, give func() (*task.Task, error)) (*task.Task, error) {
	for {
		t, err := give()
		if !errors.Is(err, storage.ErrBusy) || n.ctx.Err() != nil {
			return t, err
		}
	}
}

// race applies v to version 1 of every task when ready has returned, while the engine is about to
// start them, and checks that exactly one of the two took effect.
func race(n *node, v verb, ids []task.ID, ready func(i int)) {
	n.Helper()
	won := make([]bool, len(ids))
	var wg sync.WaitGroup
	for i, id := range ids {
		wg.Go(func() {
			ready(i)
			_, err := insist(n, func() (*task.Task, error) { return v.do(n, task.Ref{ID: id, Version: 1}) })
			won[i] = err == nil
			if err != nil && !errors.Is(err, engine.ErrStale) && !errors.Is(err, engine.ErrNotAllowed) {
				n.Errorf("%s: %v", v.name, err)
			}
		})
	}
	wg.Wait()
	wins := 0
	for i, id := range ids {
		if won[i] {
			wins++
		}
		if !won[i] || v.leads == task.Submitted {
			n.ranOnce(id)
			continue
		}
		t := n.get(id)
		if t.State != v.leads || t.Version != 2 {
			n.Errorf("after %s a task is %v at version %d", v.name, t.State, t.Version)
		}
		if t.State.Live() {
			if _, err := n.Cancel(n.ctx, t.Ref(), "end of the test"); err != nil {
				n.Error(err)
			}
		}
	}
	n.eventually("nothing runs", func() bool { return n.Stats().Running == 0 })
	for i, id := range ids {
		if won[i] && v.leads != task.Submitted && n.ledger.runs(id) != 0 {
			n.Errorf("a task was run though %s had its effect before", v.name)
		}
	}
	n.Logf("%s won %d of %d", v.name, wins, len(ids))
}

func answerRace(n *node) {
	gates := make(map[task.ID]chan struct{}, racers)
	ids := make([]task.ID, racers)
	for i := range ids {
		ids[i] = task.ID{0: 1, 15: byte(i)}
		gates[ids[i]] = make(chan struct{})
	}
	n.start(types(racers, nil, "mail"), map[string]handle{"mail": func(ctx context.Context, t *task.Task) ([]byte, error) {
		select {
		case <-gates[t.ID]:
		case <-ctx.Done():
		}
		return []byte("answer"), nil
	}})
	n.submit(repeat(racers, func(i int) engine.Request { return engine.Request{ID: ids[i], Type: "mail"} })...)
	n.eventually("all run", func() bool { return n.ledger.total() == racers })
	won := make([]bool, racers)
	var wg sync.WaitGroup
	for i, id := range ids {
		wg.Go(func() {
			time.Sleep(rand.N(time.Millisecond)) // now before the cancel and now after it
			close(gates[id])
		})
		wg.Go(func() {
			_, err := insist(n, func() (*task.Task, error) { return n.Cancel(n.ctx, task.Ref{ID: id}, "not wanted") })
			won[i] = err == nil
			if err != nil && !errors.Is(err, engine.ErrNotAllowed) {
				n.Errorf("cancel: %v", err)
			}
		})
	}
	wg.Wait()
	wins := 0
	for i, id := range ids {
		want := task.Done
		if won[i] {
			want = task.Cancelled
			wins++
		}
		if t := n.expect(id, want); (string(t.Result) == "answer") == won[i] || n.ledger.runs(id) != 1 {
			n.Errorf("a task that is %v has the result %q after %d runs", t.State, t.Result, n.ledger.runs(id))
		}
	}
	n.Logf("cancel won %d of %d", wins, racers)
}

func verbsRace(n *node) {
	n.start(types(20, nil, "mail"), map[string]handle{"mail": done})
	ids := n.submit(repeat(racers, func(int) engine.Request { return engine.Request{Type: "mail", At: distant()} })...)
	winners := make([][]verb, len(ids))
	var mu sync.Mutex
	var wg sync.WaitGroup
	for i, id := range ids {
		for _, v := range verbs() {
			wg.Go(func() {
				_, err := insist(n, func() (*task.Task, error) { return v.do(n, task.Ref{ID: id, Version: 1}) })
				switch {
				case err == nil:
					mu.Lock()
					winners[i] = append(winners[i], v)
					mu.Unlock()
				case !errors.Is(err, engine.ErrStale) && !errors.Is(err, engine.ErrNotAllowed):
					n.Errorf("%s: %v", v.name, err)
				}
			})
		}
	}
	wg.Wait()
	for i, id := range ids {
		if len(winners[i]) != 1 {
			n.Errorf("%d verbs had their effect on one version", len(winners[i]))
			continue
		}
		switch v := winners[i][0]; v.leads {
		case task.Submitted:
			n.ranOnce(id)
		case task.Waiting:
			if t := n.get(id); t.State != task.Waiting || t.Version != 2 || n.ledger.runs(id) != 0 {
				n.Errorf("after %s it is %v at version %d", v.name, t.State, t.Version)
			}
			if _, err := n.Cancel(n.ctx, task.Ref{ID: id, Version: 2}, "end of the test"); err != nil {
				n.Error(err)
			}
		default:
			n.expect(id, v.leads)
		}
	}
}
