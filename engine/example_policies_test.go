package engine_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"sync/atomic"
	"time"

	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/coord/local"
	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/storage/memory"
	"github.com/taskengine/taskengine/task"
)

// run opens an engine on a store in memory, submits payloads as tasks of the type job, and returns the
// tasks when all have ended.
func run(c engine.Config, payloads ...string) []*task.Task {
	ctx := context.Background()
	store := memory.New()
	defer store.Close()
	c.Store = store
	e, err := engine.Open(ctx, c)
	if err != nil {
		log.Fatal(err)
	}
	defer e.Close(ctx)
	var tasks []*task.Task
	for _, payload := range payloads {
		receipts, err := e.Submit(ctx, engine.Request{Type: "job", Payload: []byte(payload)})
		if err != nil {
			log.Fatal(err)
		}
		tasks = append(tasks, &task.Task{ID: receipts[0].ID})
	}
	for i, t := range tasks {
		if err := e.WaitTasks(ctx, t.ID); err != nil {
			log.Fatal(err)
		}
		if tasks[i], err = e.Get(ctx, t.ID); err != nil {
			log.Fatal(err)
		}
	}
	return tasks
}

func handlersOf(fn func(*task.Task) error) map[string]task.Handler {
	return map[string]task.Handler{"job": task.HandlerFunc(func(_ context.Context, t *task.Task) ([]byte, error) { return nil, fn(t) })}
}

// The program decides about failed attempts: it knows the meaning of an error.
func ExampleConfig_retry() {
	tasks := run(engine.Config{
		Handlers: handlersOf(func(t *task.Task) error {
			if string(t.Payload) == "gone" {
				return task.WithClass("customer_gone", errors.New("there is no such customer"))
			}
			return errors.New("no answer")
		}),
		Retry: func(f engine.Failure) engine.Decision {
			switch {
			case f.Verdict.Class == "customer_gone":
				return engine.Decision{To: task.Cancelled, Reason: "nothing is left to do"}
			case f.Task.Attempt < 3:
				return engine.Decision{To: task.Waiting, At: f.At.Add(time.Millisecond)}
			}
			return engine.Decision{To: task.Failed, Reason: "three attempts are enough"}
		},
	}, "gone", "busy")
	for _, t := range tasks {
		fmt.Printf("%s: %v after %d attempts: %s\n", t.Payload, t.State, t.Attempt, t.LastError)
	}
	// Output:
	// gone: cancelled after 1 attempts: there is no such customer (nothing is left to do)
	// busy: failed after 3 attempts: no answer (three attempts are enough)
}

// The program computes the value by which a limit counts a task. Here one task at a time runs for
// small payloads, and one for large payloads.
func ExampleConfig_values() {
	job := policy.DefaultType()
	job.Limits = []string{"size"}
	var small, most atomic.Int32
	run(engine.Config{
		Policies: policy.Set{
			Types:  map[string]policy.Type{"job": job},
			Limits: map[string]policy.Limit{"size": {Name: "size", Max: 1, Per: "func.size"}},
		},
		Values: map[string]func(*engine.Request) string{
			"size": func(r *engine.Request) string {
				if len(r.Payload) > 3 {
					return "large"
				}
				return "small"
			},
		},
		Handlers: handlersOf(func(t *task.Task) error {
			if len(t.Payload) <= 3 {
				most.Store(max(most.Load(), small.Add(1)))
				defer small.Add(-1)
			}
			time.Sleep(time.Millisecond)
			return nil
		}),
	}, "a", "abcd", "b", "abcde", "c")
	fmt.Println("small tasks at once:", most.Load())
	// Output: small tasks at once: 1
}

// The program decides whether a node may run a type, by its name and labels.
func ExampleConfig_mayRun() {
	ctx := context.Background()
	store := memory.New()
	defer store.Close()
	e, err := engine.Open(ctx, engine.Config{
		Store: store, Name: "n1", Labels: map[string]string{"memory_gb": "16"},
		Handlers: handlersOf(func(*task.Task) error { return nil }),
		MayRun: func(typ, _ string, labels map[string]string) bool {
			return typ != "job" || len(labels["memory_gb"]) > 2 // at least 100
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer e.Close(ctx)
	receipts, err := e.Submit(ctx, engine.Request{Type: "job"})
	if err != nil {
		log.Fatal(err)
	}
	_, why, err := e.Why(ctx, receipts[0].ID)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(why[0].Text)
	// Output: no live node matches nodes: Config.MayRun; nodes that are alive: n1 (memory_gb=16)
}

// licences is a semaphore with a bound of its own: it has fewer permits than the limits say.
type licences struct {
	coord.Semaphore
	max int
}

func (l licences) Order(holder task.ID, orders ...coord.Order) {
	for i := range orders {
		orders[i].Max = min(orders[i].Max, l.max)
	}
	l.Semaphore.Order(holder, orders...)
}

// The program serves a limit of the cluster itself. Any implementation of [coord.Semaphore] that
// passes the suite of coord/coordtest does; this one wraps that of package coord/local.
func ExampleConfig_semaphore() {
	job := policy.DefaultType()
	job.Limits = []string{"licences"}
	node := local.New()
	var running atomic.Int32
	var exceeded atomic.Bool
	run(engine.Config{
		Policies: policy.Set{
			Types:  map[string]policy.Type{"job": job},
			Limits: map[string]policy.Limit{"licences": {Name: "licences", Max: 10, Cluster: true}},
		},
		Coordinator: coord.Coordinator{Semaphore: licences{node, 1}, Rates: node},
		Handlers: handlersOf(func(*task.Task) error {
			if running.Add(1) > 1 {
				exceeded.Store(true)
			}
			time.Sleep(time.Millisecond)
			running.Add(-1)
			return nil
		}),
	}, "a", "b", "c", "d")
	fmt.Println("more than one at once:", exceeded.Load())
	// Output: more than one at once: false
}

// A function around every handler measures how long attempts take. It sees how they end, and changes nothing.
func ExampleConfig_wrap() {
	run(engine.Config{
		Handlers: handlersOf(func(*task.Task) error { return nil }),
		Wrap: func(typ string, next task.Handler) task.Handler {
			return task.HandlerFunc(func(ctx context.Context, t *task.Task) ([]byte, error) {
				result, err := next.Handle(ctx, t)
				fmt.Printf("%s, attempt %d: %v\n", typ, t.Attempt, err)
				return result, err
			})
		},
	}, "first")
	// Output: job, attempt 1: <nil>
}

// Every task that the program adds is marked with the request that it belongs to.
func ExampleConfig_decorate() {
	tasks := run(engine.Config{
		Handlers: handlersOf(func(*task.Task) error { return nil }),
		Decorate: func(_ context.Context, r *engine.Request) error {
			r.Headers["request"] = "17"
			return nil
		},
	}, "first")
	fmt.Println(tasks[0].Headers["request"])
	// Output: 17
}
