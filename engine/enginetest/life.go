package enginetest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

var lifeScenarios = []scenario{
	{"after a restart the node knows how many tasks there are and since when the oldest is ready", countedAnew},
	{"closing and opening under load loses nothing and repeats only what was interrupted", reopenUnderLoad},
	{"tasks that a node accepted and never started all run once after its death", func(n *node) {
		n.start(types(100, nil, "mail"), map[string]handle{"mail": done})
		n.close()
		now, ids := time.Now(), task.NewIDs([32]byte{4})
		var rows []*task.Task
		for i := range 1000 {
			row := &task.Task{ID: ids.Next(now), Type: "mail", Key: fmt.Sprint(i), Priority: task.DefaultPriority}
			row.Create(task.Submitted, now.Add(-time.Hour), time.Time{})
			rows = append(rows, row)
		}
		if _, err := n.store.Insert(n.ctx, rows...); err != nil {
			n.Fatal(err)
		}
		n.open()
		for _, row := range rows {
			receipts, err := n.Submit(n.ctx, engine.Request{Type: "mail", Key: row.Key})
			if err != nil || receipts[0] != (engine.Receipt{ID: row.ID}) {
				n.Fatalf("the key %s of %v is said to be of %+v (%v)", row.Key, row.ID, receipts, err)
			}
			n.ranOnce(row.ID)
		}
	}},
	{"thousands of tasks of a node that died are all decided about", manyOrphans},
	{"the cleaner removes what is over in pages, though it loses its leadership", cleaner},
	{"waiting for a task ends when the engine is closed", func(n *node) {
		n.start(types(5, nil, "mail"), map[string]handle{"mail": done})
		id := n.submit(engine.Request{Type: "mail", At: distant()})[0]
		e, heard := n.Engine, make(chan error, 2)
		go func() { heard <- e.WaitTasks(n.ctx, id) }()
		go func() { heard <- e.WaitType(n.ctx, "mail") }()
		n.close()
		for range cap(heard) {
			select {
			case err := <-heard:
				if !errors.Is(err, engine.ErrClosed) {
					n.Errorf("it got %v", err)
				}
			case <-n.ctx.Done():
				n.Fatal("it still waits")
			}
		}
		n.open()
		if _, err := n.Cancel(n.ctx, task.Ref{ID: id}, "end of the test"); err != nil {
			n.Error(err)
		}
	}},
	{"closing waits for what runs and leaves what waits as it is", func(n *node) {
		gate := make(chan struct{})
		n.start(types(5, nil, "mail"), map[string]handle{"mail": until(gate)})
		ids := n.submit(repeat(50, func(int) engine.Request { return engine.Request{Type: "mail"} })...)
		n.eventually("the slots are taken", func() bool { return n.ledger.total() == 5 })
		e, closed := n.Engine, make(chan error)
		go func() { closed <- e.Close(n.ctx) }()
		n.eventually("it drains", func() bool {
			_, err := e.Submit(n.ctx, engine.Request{Type: "mail"})
			return errors.Is(err, engine.ErrClosed)
		})
		close(gate)
		if err := receive(n, "it is closed", closed); err != nil {
			n.Error(err)
		}
		counts, err := n.Count(n.ctx, storage.Filter{States: []task.State{task.Processing}})
		if err != nil || len(counts) > 0 || n.ledger.total() != 5 {
			n.Errorf("left running: %v (%v), and %d were started, want 5", counts, err, n.ledger.total())
		}
		n.reopenStore()
		n.open()
		n.ranOnce(ids...)
		if err := n.WaitType(n.ctx, "mail"); err != nil { // the tasks of the probe
			n.Error(err)
		}
	}},
}

// revolvingDoor submits tasks to the engine that is open.
type revolvingDoor struct {
	mu sync.RWMutex
	e  *engine.Engine // guarded by mu
}

func (d *revolvingDoor) set(e *engine.Engine) {
	d.mu.Lock()
	d.e = e
	d.mu.Unlock()
}

func (d *revolvingDoor) engine() *engine.Engine {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return d.e
}

func reopenUnderLoad(n *node) {
	const submitters, each, rounds = 8, 150, 8
	set := types(8, nil, "least")
	most := set.Types["least"]
	most.Delivery = policy.AtMostOnce
	set.Types["most"] = most
	work := func(ctx context.Context, t *task.Task) ([]byte, error) {
		if t.Payload[0] == '0' { // one in ten takes its time
			select {
			case <-time.After(5 * time.Millisecond):
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			}
		}
		return []byte("answer"), nil
	}
	n.start(set, map[string]handle{"least": work, "most": work})
	var door revolvingDoor
	door.set(n.Engine)
	accepted := make([][]task.ID, submitters)
	var wg sync.WaitGroup
	for g := range submitters {
		wg.Go(func() {
			for i := range each {
				r := engine.Request{Type: [...]string{"least", "most"}[i%2], Key: fmt.Sprint(g, "/", i), Payload: fmt.Append(nil, i%10)}
				for n.ctx.Err() == nil {
					if receipts, err := door.engine().Submit(n.ctx, r); err == nil {
						accepted[g] = append(accepted[g], receipts[0].ID)
						break
					}
					time.Sleep(time.Millisecond) // until the door has turned
				}
			}
		})
	}
	revolve(n, &door, rounds, submitters*each)
	wg.Wait()
	interrupted := 0
	for _, ids := range accepted {
		if len(ids) != each {
			n.Errorf("%d of %d tasks were accepted", len(ids), each)
		}
		for _, id := range ids {
			interrupted += checkRuns(n, id)
		}
	}
	n.Logf("%d attempts were interrupted", interrupted)
}

// revolve closes the engine and opens it again, in every round after some more of all tasks were
// started. It sometimes waits for running tasks, and sometimes interrupts them.
func revolve(n *node, door *revolvingDoor, rounds, all int) {
	n.Helper()
	hurry, cancel := context.WithCancel(n.ctx)
	cancel()
	names := make(map[task.ID]bool) // of the engines
	for round := range rounds {
		if names[n.Incarnation()] {
			n.Error("an engine goes by the name of one before it")
		}
		names[n.Incarnation()] = true
		before := n.ledger.total()
		n.eventually("some were started", func() bool { return n.ledger.total() >= before+20 || n.ledger.total() >= all })
		ctx := n.ctx
		if round%2 == 1 {
			ctx = hurry
		}
		if err := n.Close(ctx); err != nil {
			n.Fatalf("close: %v", err)
		}
		n.reopenStore()
		n.open()
		door.set(n.Engine)
	}
}

// checkRuns waits for a task and checks that every run of it is recorded: one run has finished it,
// the others are in its history. It returns how many of the latter were interrupted.
func checkRuns(n *node, id task.ID) (interrupted int) {
	n.Helper()
	n.wait(id)
	t := n.get(id)
	want := 0
	for _, a := range t.History {
		if a.Outcome != task.HandedBack {
			want++
		}
		if a.Outcome == task.Interrupted {
			interrupted++
		}
	}
	switch {
	case t.State == task.Done:
		want++
		if string(t.Result) != "answer" {
			n.Errorf("a task is done with the result %q", t.Result)
		}
	case t.Type != "most" || t.State != task.Error || interrupted == 0:
		n.Errorf("a task of type %s is %v: %s", t.Type, t.State, t.LastError)
	}
	runs := n.ledger.runs(id)
	if runs != want || t.Type == "most" && runs > 1 {
		n.Errorf("a task of type %s that is %v was run %d times, want %d: %+v", t.Type, t.State, runs, want, t.History)
	}
	return interrupted
}

func manyOrphans(n *node) {
	const orphans = 2500
	n.start(types(100, nil, "mail"), map[string]handle{"mail": done})
	n.close()
	now, ids := time.Now(), task.NewIDs([32]byte{3})
	var rows []*task.Task
	for range orphans {
		row := &task.Task{ID: ids.Next(now), Type: "mail", Priority: task.DefaultPriority}
		row.Create(task.Submitted, now, time.Time{})
		task.Change{Ref: row.Ref(), To: task.Processing, At: now, NextEventAt: now, Owner: task.ID{99}}.Apply(row)
		rows = append(rows, row)
	}
	if _, err := n.store.Insert(n.ctx, rows...); err != nil {
		n.Fatal(err)
	}
	n.open()
	for _, row := range rows {
		t := n.expect(row.ID, task.Done)
		if n.ledger.runs(row.ID) != 1 || t.Attempt != 2 || t.History[0].Outcome != task.Crashed {
			n.Fatalf("%d runs, attempt %d, history %+v", n.ledger.runs(row.ID), t.Attempt, t.History)
		}
	}
}

// plain hides that a store is an [storage.Expirer], which removes expired rows in its own way and
// later. The engine then removes them, row by row.
type plain struct {
	storage.Store
	storage.Inspector
}

func cleaner(n *node) {
	if _, ok := n.store.(storage.Expirer); ok {
		n.config.Store = plain{n.store, n.store.(storage.Inspector)}
	}
	set := types(100, func(p *policy.Type) { p.Retention.Done = time.Millisecond }, "mail")
	n.start(set, map[string]handle{"mail": done})
	kept := n.submit(engine.Request{Type: "mail", At: distant()})[0]
	n.wait(n.submit(repeat(1200, func(int) engine.Request { return engine.Request{Type: "mail"} })...)...)
	n.alone.Sever() // the next leadership begins to clean again
	n.eventually("what is over is removed", func() bool {
		counts, err := n.Count(n.ctx, storage.Filter{})
		if err != nil {
			n.Fatal(err)
		}
		return len(counts) == 1 && counts[storage.StateType{State: task.Waiting, Type: "mail"}] == 1
	})
	if _, err := n.Cancel(n.ctx, task.Ref{ID: kept}, "end of the test"); err != nil {
		n.Error(err)
	}
}
