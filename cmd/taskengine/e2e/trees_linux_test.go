//go:build !race

package e2e

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/taskengine/taskengine/coord/postgres"
	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/engine/enginetest"
	"github.com/taskengine/taskengine/internal/wiretest"
	storage "github.com/taskengine/taskengine/storage/postgres"
)

// treesConfig makes nodes that run tasks of random trees by a plugin.
const treesConfig = `
node: {slots: 8, drain_timeout: 50s}
storage: %s
coordination: {lease: %v}
handlers:
  trees: {plugin: [%q], env: {%s: plugin, TREES: %q, FAULTS: %q}, slots: 4, processes: {min: 2, max: 2}}
types:
  tree: {handler: trees, max_crashes: 0, retry: {max: forever, backoff: {fixed: [1ms]}}}
`

// leaseOfTrees is the lease of the nodes that run tasks of trees.
const leaseOfTrees = 2 * time.Second

// grove is some nodes that run tasks of random trees.
type grove struct {
	t        *testing.T
	database string
	file     string
	wires    []*wiretest.Wire
	nodes    []*running
}

func (g *grove) begin(i int) *running {
	return nodeOf(g.t, g.file, i, "storage.url="+g.wires[i].URL())
}

// held returns the tasks that a node has, with their versions; "" if it has none.
func (g *grove) held(i int) string {
	return query(g.t, g.database, fmt.Sprintf(
		"select coalesce(string_agg(format('(%%L, %%s)', id, version), ', '), '') from taskengine.tasks where type = 'tree' and state = 'processing' and node = 'n%d'", i))
}

// pause stops the process of a node that has tasks, and perhaps its handlers, and returns its tasks and the processes.
func (g *grove) pause(i int, withHandlers bool) (tasks string, pids []int) {
	g.t.Helper()
	for begin := time.Now(); time.Since(begin) < limit; {
		if g.held(i) == "" {
			time.Sleep(askEvery)
			continue
		}
		pids = []int{g.nodes[i].cmd.Process.Pid}
		if withHandlers {
			pids = append(pids, g.nodes[i].descendants()...)
		}
		signalAll(g.t, pids, syscall.SIGSTOP)
		if tasks = g.held(i); tasks != "" {
			return tasks, pids
		}
		signalAll(g.t, pids, syscall.SIGCONT)
	}
	g.t.Fatalf("node %d runs nothing", i)
	return "", nil
}

// areTaken waits until other nodes take a node for dead, and have taken its tasks.
func (g *grove) areTaken(i int, tasks string) {
	g.t.Helper()
	sql := fmt.Sprintf(`select (select count(*) from taskengine.tasks t join (values %s) v (id, version) on t.id = v.id::uuid and t.version = v.version where t.state = 'processing')
		+ (select count(*) from taskengine.member where name = 'n%d' and died_at is null)`, tasks, i)
	for begin := time.Now(); query(g.t, g.database, sql) != "0"; time.Sleep(askEvery) {
		if time.Since(begin) > limit {
			g.t.Fatalf("the tasks %s stay with their node", tasks)
		}
	}
}

// Trees of tasks grow on a node of this process and on three nodes that are paused for longer than their lease, with their handlers or without them, killed, and
// cut off from the database while it answers.
func TestRandomTreesEndAsTheirModelSaysThoughNodesArePausedAndKilled(t *testing.T) {
	t.Parallel()
	const rounds = 2
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 1))
	t.Logf("seed %d", seed)
	g := &grove{t: t, database: tables(t)}
	faults := filepath.Join(t.TempDir(), "faults")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	g.file = write(t, "taskengine.yaml", fmt.Sprintf(treesConfig, onPostgres(g.database), leaseOfTrees, self, role, fmt.Sprint(seed), faults))
	for i := range 3 {
		g.wires = append(g.wires, wiretest.New(t, g.database))
		g.nodes = append(g.nodes, g.begin(i))
	}
	config := joined(t, g.database)
	trees := enginetest.GrowTreesWith(t, config, seed)
	for round := range rounds {
		paused := rng.IntN(3)
		killed, cut := (paused+1)%3, (paused+2)%3
		tasks, pids := g.pause(paused, round%2 == 0)
		if round > 0 { // while the other is paused
			if err := g.nodes[killed].cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			<-g.nodes[killed].ended
			g.nodes[killed] = g.begin(killed)
		}
		g.wires[cut].Cut()
		g.wires[cut].Heal()
		g.areTaken(paused, tasks)
		signalAll(t, pids, syscall.SIGCONT)
	}
	for i := range g.nodes { // all of them work at the end
		for begin := time.Now(); g.held(i) == ""; time.Sleep(askEvery) {
			if time.Since(begin) > limit {
				t.Fatalf("node %d runs nothing any more", i)
			}
		}
	}
	trees.Settle()
	trees.Verify(config.Store)
	for _, n := range g.nodes {
		n.signal(t, syscall.SIGTERM)
		if code := n.exit(t); code != exitOK {
			t.Errorf("a node ended with %d:\n%s", code, n.log)
		}
	}
	if found, err := os.ReadFile(faults); !os.IsNotExist(err) {
		t.Errorf("the handlers say, %v:\n%s", err, found)
	}
	if wrong := query(t, g.database, "select taskengine.recount()"); wrong != "0" {
		t.Errorf("%s counts are wrong", wrong)
	}
}

// joined returns the configuration of a node of this process.
func joined(t *testing.T, database string) engine.Config {
	t.Helper()
	s, err := storage.Open(t.Context(), database, storage.Options{})
	if err != nil {
		t.Fatal(err)
	}
	c, err := postgres.New(s.Pool(), postgres.Options{Lease: leaseOfTrees})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return engine.Config{Store: s, Name: "test", Coordinator: c.Coordinator(), Lease: leaseOfTrees}
}
