//go:build !race

package e2e

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
	"github.com/taskengine/taskengine/server/proto/taskengine/v1/taskenginev1connect"
)

var chaosFor = flag.Duration("chaos", 10*time.Second, "how long plugins are killed at random")

// chaosConfig makes a node with a plugin that notes the task of every call.
const chaosConfig = `
node: {slots: 64}
storage: {driver: pebble, path: data}
handlers:
  note: {plugin: [%q], env: {%s: plugin, JOURNAL: %q}, slots: 8, processes: {min: 2, max: 4, idle: 1s}, replace: {tasks: 200}}
types:
  least: {handler: note, max_crashes: 0, retry: {max: 100, backoff: none}}
  later: {handler: note, max_crashes: 0, retry: {max: 100, backoff: none}}
  most: {handler: note, delivery: at_most_once}
`

// chaos is a node under load. Its plugins are killed, stopped and slowed down.
type chaos struct {
	*running
	t       *testing.T
	journal string
	load    *load
	stop    atomic.Bool
}

func startChaos(t *testing.T) *chaos {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := &chaos{t: t, journal: filepath.Join(t.TempDir(), "journal")}
	file := write(t, "taskengine.yaml", fmt.Sprintf(chaosConfig, self, role, c.journal))
	c.running = start(t, nil, "run", "-c", file)
	c.load = &load{
		client:       taskenginev1connect.NewTaskServiceClient(&http.Client{Transport: &http.Transport{}}, "http://"+c.api),
		acknowledged: newAccepted(), ended: c.ended,
	}
	for i := range uint64(3) {
		c.load.wg.Go(func() {
			rng := rand.New(rand.NewPCG(7, i))
			for !c.stop.Load() && c.load.submit(rng, "") {
				time.Sleep(2 * time.Millisecond) // about the rate of the plugins
			}
		})
	}
	return c
}

// settle ends the load and returns every accepted task when all have ended.
func (c *chaos) settle() map[string]*taskenginev1.Task {
	c.t.Helper()
	c.stop.Store(true)
	c.load.wait()
	for _, typ := range []string{"least", "later", "most"} {
		if got := cli(c.t, nil, "", "--address", c.api, "task", "wait", "--type", typ, "--timeout", "50s"); got.code != 0 {
			c.t.Fatalf("tasks of type %s do not end: %s", typ, got.stderr)
		}
	}
	out := make(map[string]*taskenginev1.Task)
	var mu sync.Mutex
	var wg sync.WaitGroup
	ids := make(chan string)
	for range 8 {
		wg.Go(func() {
			for id := range ids {
				res, err := c.load.client.Get(c.t.Context(), &taskenginev1.GetRequest{Id: id})
				if err != nil {
					c.t.Errorf("task %s was accepted and is not there: %v", id, err)
					continue
				}
				mu.Lock()
				out[id] = res.GetTask()
				mu.Unlock()
			}
		})
	}
	for id := range c.load.acknowledged.types {
		ids <- id
	}
	close(ids)
	wg.Wait()
	if len(out) < 500 {
		c.t.Errorf("only %d tasks were accepted: the load was none", len(out))
	}
	return out
}

// plugins returns the descendants that are plugins and not their guards.
func (c *chaos) plugins() []int {
	return slices.DeleteFunc(c.descendants(), func(pid int) bool {
		cmdline, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		return !strings.Contains(string(cmdline), ".test")
	})
}

func TestPluginsThatAreKilledAtRandomCostNoTask(t *testing.T) {
	t.Parallel()
	c := startChaos(t)
	rng := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 0))
	const fewestKills, fewestTasks = 10, 1000 // they take longer on a slow machine
	kills := 0
	for begin := time.Now(); time.Since(begin) < *chaosFor || (kills < fewestKills || c.load.accepted() < fewestTasks) && time.Since(begin) < limit; {
		time.Sleep(time.Duration(20+rng.IntN(200)) * time.Millisecond) // any moment is the right one
		if pids := c.plugins(); len(pids) > 0 && syscall.Kill(pids[rng.IntN(len(pids))], syscall.SIGKILL) == nil {
			kills++
		}
	}
	tasks := c.settle()
	runs := readJournal(t, c.journal)
	crashed, interrupted, lost := 0, 0, 0
	for id, task := range tasks {
		counted := 0
		for _, a := range task.GetHistory() {
			switch a.GetOutcome() {
			case "crashed":
				crashed++
				counted++
			case "interrupted":
				interrupted++
			case "handed_back":
			default:
				t.Errorf("task %s has an attempt that %s: %s", id, a.GetOutcome(), a.GetError())
			}
		}
		n := runs[task.GetType()+" "+id]
		switch state := task.GetState(); {
		case state == "done" && int(task.GetAttempt()) != counted+1:
			t.Errorf("task %s is done in attempt %d after %d crashes: an interruption was counted", id, task.GetAttempt(), counted)
		case state == "done" && n > 0 && (task.GetType() != "most" || n == 1):
		case state == "error" && task.GetType() == "most" && n <= 1:
			lost++
		default:
			t.Errorf("task %s of type %s is %s after %d runs: %s", id, task.GetType(), state, n, task.GetError())
		}
	}
	if crashed > kills {
		t.Errorf("%d kills were counted as %d crashes of tasks", kills, crashed)
	}
	if kills < fewestKills || interrupted+crashed == 0 {
		t.Errorf("%d kills hit %d tasks: there was no chaos", kills, interrupted+crashed)
	}
	t.Logf("%d kills; %d tasks; %d attempts were interrupted, %d crashed; %d at_most_once became errors", kills, len(tasks), interrupted, crashed, lost)
	family := c.descendants()
	c.signal(t, syscall.SIGTERM)
	if code := c.exit(t); code != 0 {
		t.Errorf("the node ended with %d", code)
	}
	goneAll(t, family)
}

func TestPluginsAreReloadedUnderLoadAndNoTaskNoticesIt(t *testing.T) {
	t.Parallel()
	c := startChaos(t)
	old := c.plugins()
	for i := range 5 {
		c.signal(t, syscall.SIGHUP)
		c.saysTimes(t, "the handler is reloaded", i+1)
		for begin := time.Now(); c.load.accepted() < (i+1)*120; time.Sleep(time.Millisecond) {
			if time.Since(begin) > limit {
				t.Fatal("no more tasks are accepted")
			}
		}
	}
	for id, task := range c.settle() {
		if task.GetState() != "done" || task.GetAttempt() != 1 || len(task.GetHistory()) > 0 {
			t.Errorf("task %s is %s in attempt %d: %v", id, task.GetState(), task.GetAttempt(), task.GetHistory())
		}
	}
	goneAll(t, old)
	c.signal(t, syscall.SIGTERM)
	if code := c.exit(t); code != 0 {
		t.Errorf("the node ended with %d", code)
	}
}

func TestANodeThatIsKilledLeavesNoProcess(t *testing.T) {
	t.Parallel()
	c := startChaos(t)
	for begin := time.Now(); len(c.plugins()) < 2; time.Sleep(20 * time.Millisecond) { // each time all processes are looked at
		if time.Since(begin) > limit {
			t.Fatal("there are no plugins")
		}
	}
	family := c.descendants()
	if err := c.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-c.ended
	c.load.wait()
	goneAll(t, family)
}
