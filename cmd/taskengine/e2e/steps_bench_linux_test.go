//go:build !race

package e2e

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"testing"

	"github.com/taskengine/taskengine/client"
	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/storage/pebble"
	"github.com/taskengine/taskengine/task"
)

// flowConfig makes a node with tasks that have steps.
const flowConfig = `
node: {slots: 1024}
storage: {driver: pebble, path: %q}
handlers: {flow: %s}
types: {flow: {handler: flow}}
`

// BenchmarkSteps measures how many steps of tasks a second are durable, on pebble, from the first submit to the end of the last task. A task has ten
// steps, and 512 tasks run at a time, or one. The steps run in a process that the node has started (plugin), in one that has connected
// to it (worker), and, for comparison, in a Go program that has the engine (library). Client, node and process share the machine.
// Run it with -benchtime 20000x: an operation is a step.
func BenchmarkSteps(b *testing.B) {
	for _, inFlight := range []int{512, 1} {
		b.Run(fmt.Sprintf("library/in-flight=%d", inFlight), func(b *testing.B) {
			e := flowLibrary(b)
			measureFlows(b, inFlight, func(ctx context.Context) error {
				receipts, err := e.Submit(ctx, engine.Request{Type: "flow"})
				if err != nil {
					return err
				}
				return e.WaitTasks(ctx, receipts[0].ID)
			})
		})
		b.Run(fmt.Sprintf("plugin/in-flight=%d", inFlight), func(b *testing.B) {
			n := flowNode(b, fmt.Sprintf("{plugin: [%q], env: {%s: plugin, FLOW: all}, slots: 512}", executable(b), role))
			measureFlows(b, inFlight, flowClient(b, n))
		})
		b.Run(fmt.Sprintf("worker/in-flight=%d", inFlight), func(b *testing.B) {
			n := flowNode(b, "{remote: {slots: 512}}")
			startWorker(b, n.api, "FLOW=all").awaitConnected(b)
			measureFlows(b, inFlight, flowClient(b, n))
		})
	}
}

// flowNode starts a node with a handler.
func flowNode(b *testing.B, handler string) *running {
	return start(b, nil, "run", "-c", write(b, "taskengine.yaml", fmt.Sprintf(flowConfig, filepath.Join(diskFolder(b), "data"), handler)))
}

// flowClient returns a function that runs a task on a node.
func flowClient(b *testing.B, n *running) func(context.Context) error {
	c, err := client.Open([]string{n.api}, client.Options{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { c.Close() })
	return func(ctx context.Context) error {
		r, err := c.Submit(ctx, "flow", client.Raw(nil))
		if err != nil {
			return err
		}
		_, err = c.Wait(ctx, r.ID)
		return err
	}
}

// flowLibrary opens an engine in this process.
func flowLibrary(b *testing.B) *engine.Engine {
	store, err := pebble.Open(filepath.Join(diskFolder(b), "data"), pebble.Options{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { store.Close() })
	e, err := engine.Open(b.Context(), engine.Config{
		Store: store, Policies: policy.Set{Slots: 1024, Types: map[string]policy.Type{"flow": policy.DefaultType()}}, Handlers: map[string]task.Handler{"flow": flowHandler()},
	})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { e.Close(context.Background()) })
	return e
}

// measureFlows runs tasks with b.N steps in all, so many at a time.
func measureFlows(b *testing.B, inFlight int, run func(context.Context) error) {
	work := func(tasks int) {
		var all sync.WaitGroup
		next := make(chan struct{})
		for range inFlight {
			all.Go(func() {
				for range next {
					if err := run(b.Context()); err != nil {
						b.Error(err)
					}
				}
			})
		}
		for range tasks {
			next <- struct{}{}
		}
		close(next)
		all.Wait()
	}
	work(inFlight) // connects
	tasks := max(1, b.N/flowSteps)
	b.ResetTimer()
	work(tasks)
	b.ReportMetric(float64(tasks*flowSteps)/b.Elapsed().Seconds(), "steps/s")
}
