package enginetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/storage/storagetest"
	"github.com/taskengine/taskengine/task"
)

var againScenarios = []scenario{
	{"a task runs again with the payload and the checkpoint that its handler asked for, also over restarts", countsInItsRow},
	{"tasks that are added when another runs again are added exactly once, though the store fails now and then", func(n *node) {
		addThrough(n, newWeather(8, func(call storagetest.Call, fault error) storagetest.Fault {
			if call == storagetest.Get {
				return storagetest.Fault{}
			}
			return storagetest.Fault{Before: fault}
		}))
	}},
	{"tasks that are added when another runs again are added exactly once, though the store does not say whether it failed", func(n *node) {
		addThrough(n, newWeather(4, unsaid))
	}},
	{"tasks that are added when another runs again are added exactly once, though the store breaks", func(n *node) {
		w := newWeather(4, func(call storagetest.Call, fault error) storagetest.Fault {
			if call == storagetest.Update {
				return storagetest.Fault{After: fmt.Errorf("%w: %w", storage.ErrBroken, fault)}
			}
			return storagetest.Fault{}
		})
		w.after.Store(30)
		f := newFires(n)
		ids := stormy(n, w, f.handle)
		receive(n, "the engine has failed", n.Failed())
		if err := n.Close(n.ctx); !errors.Is(err, engine.ErrFailed) {
			n.Errorf("close: %v", err)
		}
		n.eventually("the handlers have returned, for which an engine that has failed does not wait", n.ledger.isIdle)
		reopenHealthy(n)
		f.expect(ids)
	}},
	{"an attempt that was cancelled adds no tasks", cancelledFires},
}

// addThrough lets tasks run again and add others in a storm, and checks the added tasks.
func addThrough(n *node, w *weather) {
	f := newFires(n)
	ids := stormy(n, w, f.handle)
	w.clear()
	n.wait(ids...)
	n.close()
	reopenHealthy(n)
	f.expect(ids)
}

// firesEach is how often a task of fires runs again.
const firesEach = 4

// fires is a handler of tasks that run again, with a count in their payload, and add a task each time.
type fires struct {
	n  *node
	mu sync.Mutex
	of map[string]map[task.ID]bool // guarded by mu: the tasks that have run for each fire
}

func newFires(n *node) *fires { return &fires{n: n, of: make(map[string]map[task.ID]bool)} }

func (f *fires) handle(_ context.Context, t *task.Task) ([]byte, error) {
	if name, is := strings.CutPrefix(string(t.Payload), "fire "); is {
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.of[name] == nil {
			f.of[name] = make(map[task.ID]bool)
		}
		f.of[name][t.ID] = true
		return nil, nil
	}
	i := 0
	if len(t.Payload) > 0 {
		var err error
		if i, err = strconv.Atoi(string(t.Payload)); err != nil {
			return nil, task.Permanent(err)
		}
	}
	if i == firesEach {
		return nil, nil
	}
	return nil, task.Again(time.Now().Add(20*time.Millisecond), task.WithPayload(fmt.Append(nil, i+1)),
		task.WithTasks(engine.Request{Type: "mail", Payload: fmt.Appendf(nil, "fire %v %d", t.ID, i)}))
}

// expect waits for the end of all, and checks that each fire is one task.
func (f *fires) expect(ids []task.ID) {
	n := f.n
	n.Helper()
	for _, id := range ids {
		n.expect(id, task.Done)
	}
	if err := n.WaitType(n.ctx, "mail"); err != nil {
		n.Fatal(err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, id := range ids {
		for i := range firesEach {
			if got := len(f.of[fmt.Sprintf("%v %d", id, i)]); got != 1 {
				n.Errorf("fire %d of task %v is %d tasks", i, id, got)
			}
		}
	}
	for name, tasks := range f.of {
		if len(tasks) != 1 {
			n.Errorf("fire %s is %d tasks", name, len(tasks))
		}
	}
}

// cancelledFires cancels a task. Its handler then asks to run again and to add others.
func cancelledFires(n *node) {
	began, gate := make(chan struct{}), make(chan struct{})
	n.start(types(10, nil, "tick", "fire"), map[string]handle{"fire": done, "tick": func(context.Context, *task.Task) ([]byte, error) {
		began <- struct{}{}
		<-gate
		return nil, task.Again(time.Now(), task.WithTasks(engine.Request{Type: "fire"}))
	}})
	id := n.submit(engine.Request{Type: "tick"})[0]
	receive(n, "the handler begins", began)
	if _, err := n.Cancel(n.ctx, task.Ref{ID: id}, ""); err != nil {
		n.Fatal(err)
	}
	close(gate)
	n.eventually("the late answer has come", func() bool { return n.Stats().Stale == 1 && n.Stats().Running == 0 })
	n.expect(id, task.Cancelled)
	if counts, err := n.Count(n.ctx, storage.Filter{Types: []string{"fire"}}); err != nil || len(counts) > 0 {
		n.Errorf("there are the tasks %v: %v", counts, err)
	}
}

// countsInItsRow runs tasks that count their runs in the payload, in a small or a large one, and in
// the checkpoint. A run that fails, and a restart, do not change where they are.
func countsInItsRow(n *node) {
	const runs = 6
	pad := func(i int) []byte { return bytes.Repeat([]byte{'x'}, i%2*3000) }
	state := func(i int) []byte { return fmt.Appendf(nil, "%d %s", i, pad(i)) }
	n.start(types(10, nil, "tick"), map[string]handle{"tick": func(_ context.Context, t *task.Task) ([]byte, error) {
		var i int
		if _, err := fmt.Sscan(string(t.Payload), &i); err != nil {
			return nil, task.Permanent(err)
		}
		checkpoint := state(i)
		if i == 0 {
			checkpoint = nil
		}
		switch {
		case !bytes.Equal(t.Payload, state(i)) || !bytes.Equal(t.Checkpoint(), checkpoint):
			return nil, task.Permanent(fmt.Errorf("run %d has a payload of %d bytes and a checkpoint of %d", i, len(t.Payload), len(t.Checkpoint())))
		case i == runs:
			return nil, nil
		case t.Attempt == 1:
			return nil, errNo
		}
		return []byte("r"), task.Again(time.Now().Add(20*time.Millisecond), task.WithPayload(state(i+1)), task.WithCheckpoint(state(i+1)))
	}})
	ids := n.submit(repeat(20, func(int) engine.Request { return engine.Request{Type: "tick", Payload: state(0)} })...)
	for range 3 {
		n.close()
		n.reopenStore()
		n.open()
	}
	for _, id := range ids {
		if t := n.expect(id, task.Done); !bytes.Equal(t.Payload, state(runs)) || len(t.Checkpoint()) > 0 {
			n.Errorf("in the end the payload has %d bytes, and the checkpoint %d", len(t.Payload), len(t.Checkpoint()))
		}
	}
}
