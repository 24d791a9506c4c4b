// Package taskenginetest runs an engine in memory in the tests of a program: submitted tasks can be looked at, their
// handlers run as they do in production, and with [Run] time is under control: a retry after an hour takes no time.
//
// The tasks are in [memory.Store], which keeps all promises of the other stores except durability.
package taskenginetest

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/storage/memory"
	"github.com/taskengine/taskengine/task"
)

// How long [Engine.Wait] waits for tasks: by the clock of the machine, and in the time of a [Run].
const (
	Patience     = time.Minute
	FakePatience = 30 * 24 * time.Hour
)

// Engine is an engine of a test. Its methods fail the test when they cannot do their work.
type Engine struct {
	*engine.Engine
	t        testing.TB
	config   engine.Config
	patience time.Duration
}

// New opens an engine, which is closed with the test. Its Store is new and in memory unless c has one. A type without a
// handler is not run: its tasks stay as they were submitted.
func New(t testing.TB, c engine.Config) *Engine {
	t.Helper()
	if c.Store == nil {
		store := memory.New()
		t.Cleanup(func() {
			if err := store.Close(); err != nil {
				t.Error(err)
			}
		})
		c.Store = store
	}
	e := &Engine{t: t, config: c, patience: Patience}
	e.open()
	t.Cleanup(e.close)
	return e
}

// Run calls test with a new engine in a bubble of fake time, see [testing/synctest]: time stands still while a goroutine
// has something to do, and jumps to the next moment at which something happens. Everything that the test and its handlers
// start must be in memory, because a goroutine that waits for the network does not let time go on.
func Run(t *testing.T, c engine.Config, test func(t *testing.T, e *Engine)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		e := New(t, c)
		e.patience = FakePatience
		test(t, e)
	})
}

func (e *Engine) open() {
	e.t.Helper()
	opened, err := engine.Open(context.Background(), e.config)
	if err != nil {
		e.t.Fatal(err)
	}
	e.Engine = opened
}

func (e *Engine) close() {
	e.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	defer cancel()
	if err := e.Close(ctx); err != nil {
		e.t.Errorf("close the engine: %v", err)
	}
}

// Restart closes the engine, which waits for handlers that run, lets some time pass, and opens it again on the same tasks.
func (e *Engine) Restart(after time.Duration) {
	e.t.Helper()
	e.close()
	time.Sleep(after)
	e.open()
}

// Advance lets time pass in a [Run], and returns when nothing is left to be done at its end.
func (e *Engine) Advance(d time.Duration) {
	e.t.Helper()
	time.Sleep(d)
	synctest.Wait()
}

// Tasks returns the tasks of a type in the order of their submits; of all types if typ is "". Ended tasks are
// among them for as long as their type keeps them.
func (e *Engine) Tasks(typ string) (all []*task.Task) {
	e.t.Helper()
	var filter storage.Filter
	if typ != "" {
		filter.Types = []string{typ}
	}
	const page = 1000
	for before := (task.ID{}); ; {
		some, next, err := e.List(context.Background(), filter, before, page)
		if err != nil {
			e.t.Fatal(err)
		}
		for _, t := range some { // without its payload
			if t, err = e.Get(context.Background(), t.ID); err == nil { // otherwise it was removed meanwhile
				all = append(all, t)
			}
		}
		if before = next; next.IsZero() {
			break
		}
	}
	slices.SortFunc(all, func(a, b *task.Task) int { return cmp.Compare(a.Seq, b.Seq) })
	return all
}

// Only returns the task of a type of which there must be exactly one.
func (e *Engine) Only(typ string) *task.Task {
	e.t.Helper()
	all := e.Tasks(typ)
	if len(all) != 1 {
		e.t.Fatalf("there are %d tasks of type %s, want one", len(all), typ)
	}
	return all[0]
}

// Wait waits until tasks have ended, and returns their rows; without ids, all tasks that there are. If one does not end, the
// test fails and says why.
func (e *Engine) Wait(ids ...task.ID) (ended []*task.Task) {
	e.t.Helper()
	if len(ids) == 0 {
		for _, t := range e.Tasks("") {
			ids = append(ids, t.ID)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), e.patience)
	defer cancel()
	for _, id := range ids {
		if err := e.WaitTasks(ctx, id); err != nil {
			e.t.Fatalf("task %v has not ended: %v%s", id, err, e.reasons(id))
		}
		t, err := e.Get(ctx, id)
		if err != nil {
			e.t.Fatal(err)
		}
		ended = append(ended, t)
	}
	return ended
}

// reasons says what keeps a task from running.
func (e *Engine) reasons(id task.ID) (text string) {
	t, reasons, err := e.Why(context.Background(), id)
	if err != nil {
		return ""
	}
	text = "; it is " + t.State.String()
	for _, r := range reasons {
		text += ": " + r.Text
	}
	return text
}

// Payload returns the payload of a task, which is JSON, as a value.
func Payload[T any](t testing.TB, tk *task.Task) (value T) {
	t.Helper()
	if err := json.Unmarshal(tk.Payload, &value); err != nil {
		t.Fatalf("the payload of task %v of type %s: %v", tk.ID, tk.Type, err)
	}
	return value
}
