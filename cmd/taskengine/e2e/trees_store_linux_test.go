//go:build !race

package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/taskengine/taskengine/client"
	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/engine/enginetest"
	"github.com/taskengine/taskengine/storage/storagetest"
	"github.com/taskengine/taskengine/task"
)

// plantConfig makes a node with a store of its own that runs tasks of random trees.
const plantConfig = `
node: {slots: 8, drain_timeout: 50s}
storage: {driver: %s, path: %q}
handlers:
  trees: %s
types:
  tree: {handler: trees, max_crashes: 0, retry: {max: forever, backoff: {fixed: [1ms]}}}
`

// silence is how long a process of a handler may be silent, and a worker away, before its tasks run elsewhere.
const silence = time.Second

// plant is a node with a store of its own, and two processes that run its tasks: of a plugin, or workers.
type plant struct {
	t       *testing.T
	file    string
	client  *client.Client
	node    *running
	workers []*worker      // nil if the node has a plugin
	hire    func() *worker // starts a worker
}

// newPlant starts a node with a store in a folder.
func newPlant(t *testing.T, driver, path string, byWorkers bool, seed, faults string) *plant {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	by := fmt.Sprintf("{plugin: [%q], env: {%s: plugin, TREES: %q, FAULTS: %q}, slots: 4, liveness: %v, processes: {min: 2, max: 2}}", self, role, seed, faults, silence)
	if byWorkers {
		by = fmt.Sprintf("{remote: {slots: 4, liveness: %v, reconnect: %v}}", silence, silence)
	}
	p := &plant{t: t, file: write(t, "taskengine.yaml", fmt.Sprintf(plantConfig, driver, path, by))}
	p.node = start(t, withPath(), "run", "-c", p.file)
	if p.client, err = client.Open([]string{p.node.api}, client.Options{Timeout: limit}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.client.Close(); err != nil {
			t.Error(err)
		}
	})
	p.hire = func() *worker { return startWorker(t, p.node.api, "TREES="+seed, "FAULTS="+faults) }
	if byWorkers {
		p.workers = []*worker{p.hire(), p.hire()}
	}
	return p
}

// isBusy waits until tasks run.
func (p *plant) isBusy() {
	p.t.Helper()
	for begin := time.Now(); ; time.Sleep(askEvery) {
		rows, err := p.List(p.t.Context(), "tree", task.Processing)
		if err == nil && len(rows) > 0 {
			return
		}
		if time.Since(begin) > limit {
			p.t.Fatalf("the node runs nothing any more: %v", err)
		}
	}
}

// handler returns the id of a process that runs tasks.
func (p *plant) handler(rng *rand.Rand) int {
	p.t.Helper()
	if p.workers != nil {
		return p.workers[rng.IntN(len(p.workers))].cmd.Process.Pid
	}
	for begin := time.Now(); ; time.Sleep(askEvery) {
		if pids := p.node.descendants(); len(pids) > 0 {
			return pids[rng.IntN(len(pids))]
		}
		if time.Since(begin) > limit {
			p.t.Fatal("the node has no process of the plugin")
		}
	}
}

// pauseNode stops the node for longer than its handlers may be silent, and perhaps one of these with it.
func (p *plant) pauseNode(rng *rand.Rand) {
	pids := []int{p.node.cmd.Process.Pid}
	if rng.IntN(2) == 0 {
		pids = append(pids, p.handler(rng))
	}
	signalAll(p.t, pids, syscall.SIGSTOP)
	time.Sleep(2 * silence)
	signalAll(p.t, pids, syscall.SIGCONT)
}

// pauseHandler stops a process of a handler for longer than it may be silent. The node ends that of a plugin. A worker goes on when its tasks run elsewhere.
func (p *plant) pauseHandler(rng *rand.Rand) {
	pids := []int{p.handler(rng)}
	signalAll(p.t, pids, syscall.SIGSTOP)
	time.Sleep(3 * silence)
	signalAll(p.t, pids, syscall.SIGCONT)
}

// killHandler kills a process of a handler. Another one takes its place.
func (p *plant) killHandler(rng *rand.Rand) {
	p.t.Helper()
	if p.workers == nil {
		signalAll(p.t, []int{p.handler(rng)}, syscall.SIGKILL)
		return
	}
	i := rng.IntN(len(p.workers))
	p.workers[i].kill(p.t)
	p.workers[i] = p.hire()
}

// killNode kills the node, and starts it again.
func (p *plant) killNode(*rand.Rand) {
	p.t.Helper()
	if err := p.node.cmd.Process.Kill(); err != nil {
		p.t.Fatal(err)
	}
	<-p.node.ended
	p.node = startAt(p.t, p.node.api, withPath(), "run", "-c", p.file)
}

// Submit implements [enginetest.TreeNodes].
func (p *plant) Submit(ctx context.Context, reqs ...engine.Request) ([]engine.Receipt, error) {
	all := make([]client.Request, len(reqs))
	for i, r := range reqs {
		all[i] = client.Request{ID: r.ID, Type: r.Type, Payload: r.Payload}
	}
	_, err := p.client.SubmitAll(ctx, all...)
	return nil, err
}

// WaitTasks implements [enginetest.TreeNodes].
func (p *plant) WaitTasks(ctx context.Context, ids ...task.ID) error {
	for _, id := range ids {
		if _, err := p.client.Wait(ctx, id); err != nil {
			return err
		}
	}
	return nil
}

// Signal implements [enginetest.TreeNodes].
func (p *plant) Signal(ctx context.Context, s engine.Signal) (engine.SignalOutcome, *task.Task, error) {
	outcome, _, err := p.client.Signal(ctx, client.Signal{Task: s.To, Name: s.Name, Data: s.Data, Keep: s.Keep, RequestID: s.ID})
	return map[client.SignalOutcome]engine.SignalOutcome{
		client.SignalWoke: engine.SignalWoke, client.SignalKept: engine.SignalKept, client.SignalRepeated: engine.SignalRepeated,
		client.SignalDropped: engine.SignalDropped, client.SignalNoRoom: engine.SignalNoRoom, client.SignalEnded: engine.SignalTaskEnded,
	}[outcome], nil, err
}

// Cancel implements [enginetest.TreeNodes].
func (p *plant) Cancel(ctx context.Context, ref task.Ref, reason string) (*task.Task, error) {
	_, err := p.client.Cancel(ctx, ref.ID, reason, client.AtVersion(ref.Version))
	return nil, err
}

// Fail implements [enginetest.TreeNodes].
func (p *plant) Fail(ctx context.Context, ref task.Ref, reason string) (*task.Task, error) {
	_, err := p.client.Fail(ctx, ref.ID, reason, client.AtVersion(ref.Version))
	return nil, err
}

// Resume implements [enginetest.TreeNodes].
func (p *plant) Resume(ctx context.Context, ref task.Ref) (*task.Task, error) {
	_, err := p.client.Resume(ctx, ref.ID, client.AtVersion(ref.Version))
	return nil, err
}

// List implements [enginetest.TreeNodes].
func (p *plant) List(ctx context.Context, typ string, states ...task.State) (rows []*task.Task, err error) {
	f, byName := client.TaskFilter{Types: []string{typ}}, make(map[client.State]task.State)
	for _, s := range states {
		name := client.State(s.String())
		f.States, byName[name] = append(f.States, name), s
	}
	for t, err := range p.client.Tasks(ctx, f) {
		if err != nil {
			return nil, err
		}
		rows = append(rows, &task.Task{ID: t.ID, Type: typ, Version: t.Version, State: byName[t.State], LastError: t.Error, Parent: t.Parent, Signals: &task.Signals{Awaits: t.Awaits}})
	}
	return rows, nil
}

// Trees of tasks grow on one node with a store of its own. The node, and the processes of its plugin or its workers, are stopped for longer than they may be
// silent, and killed, in random order.
func TestRandomTreesInAStoreOfOneNodeEndAsTheirModelSaysThoughProcessesArePausedAndKilled(t *testing.T) {
	t.Parallel()
	for driver, byWorkers := range map[string]bool{"pebble": true, "bolt": false} {
		t.Run(driver, func(t *testing.T) {
			t.Parallel()
			seed := rand.Uint64()
			t.Logf("seed %d", seed)
			rng := rand.New(rand.NewPCG(seed, 1))
			path, faults := filepath.Join(t.TempDir(), "data"), filepath.Join(t.TempDir(), "faults")
			p := newPlant(t, driver, path, byWorkers, fmt.Sprint(seed), faults)
			trees := enginetest.GrowTrees(t, p, seed)
			mishaps := []func(*rand.Rand){p.pauseNode, p.pauseHandler, p.killHandler, p.killNode, p.killNode}
			rng.Shuffle(len(mishaps), func(i, j int) { mishaps[i], mishaps[j] = mishaps[j], mishaps[i] })
			for _, happens := range mishaps {
				p.isBusy()
				happens(rng)
			}
			p.isBusy()
			trees.Settle()
			p.node.signal(t, syscall.SIGTERM)
			if code := p.node.exit(t); code != exitOK {
				t.Errorf("the node ended with %d:\n%s", code, p.node.log)
			}
			if found, err := os.ReadFile(faults); !os.IsNotExist(err) {
				t.Errorf("the handlers say, %v:\n%s", err, found)
			}
			store := openStore(t, driver, path)
			defer store.Close()
			trees.Verify(store)
			if err := store.(storagetest.Checker).Check(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}
