package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/taskengine/taskengine/cmd/taskengine/internal/coordinator"
	"github.com/taskengine/taskengine/config"
	"github.com/taskengine/taskengine/internal/pgtest"
	"github.com/taskengine/taskengine/internal/wiretest"
)

var failoverRuns = flag.Int("failover.runs", 0,
	"how many failovers are measured with each coordination, for each way in which a node goes; 0 is a single one, by SIGTERM with PostgreSQL")

const (
	failoverNodes   = 3
	failoverServers = 3               // of etcd and of ZooKeeper
	failoverLease   = 4 * time.Second // the default of coordination.lease
	failoverRole    = "healer"        // decides about the tasks of nodes that are gone
	failoverLook    = 2 * time.Millisecond
)

// failoverConfig makes nodes with tasks that note the node of their start, and run until they are let go.
const failoverConfig = `
node: {drain_timeout: 0s}
storage: %s
coordination: {driver: %s, lease: %v%s}
handlers:
  hold:
    exec: [/bin/sh, -c, 'echo "$TASKENGINE_TASK_ID $NODE" >> "$FOLDER/starts"; while ! [ -e "$FOLDER/$TASKENGINE_TASK_ID" ]; do /bin/sleep 0.05; done']
    env: {FOLDER: %q, NODE: none}
    grace: 100ms
types: {hold: {}}
`

// departures are the ways in which a node goes, by name.
var departures = []struct {
	name   string
	depart func(*testing.T, *victim)
}{
	{"SIGTERM", func(t *testing.T, v *victim) { v.signal(t, syscall.SIGTERM) }},
	{"kill -9", func(t *testing.T, v *victim) { v.signal(t, syscall.SIGKILL) }},
	{"network cut", func(_ *testing.T, v *victim) {
		for _, w := range v.wires {
			w.Stall()
		}
	}},
}

// The test measures how long it takes until another node has the role of a node that goes, and until the task that the
// node ran is started again. It checks only that both happen. docs/performance.md says how it is run.
func TestFailoverGivesTheRoleAndTheTaskOfANodeToOthers(t *testing.T) {
	if *failoverRuns == 0 {
		t.Parallel()
		f := newFailover(t, config.Database)
		f.measure(t, departures[0].depart)
		return
	}
	var table strings.Builder
	w := tabwriter.NewWriter(&table, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "coordination\tlease\tnode goes by\truns\trole p50\trole max\ttask p50\ttask max\t")
	for _, driver := range []string{config.Database, config.Etcd, config.ZooKeeper} {
		t.Run(driver, func(t *testing.T) {
			f := newFailover(t, driver)
			for _, way := range departures {
				var roles, tasks []time.Duration
				for i := range *failoverRuns {
					role, task := f.measure(t, way.depart)
					t.Logf("%s, run %d: role %v, task %v", way.name, i+1, role.Round(time.Millisecond), task.Round(time.Millisecond))
					roles, tasks = append(roles, role), append(tasks, task)
				}
				fmt.Fprintf(w, "%s\t%s\t%s\t%d\t", driver, f.lease(t), way.name, *failoverRuns)
				for _, all := range [][]time.Duration{roles, tasks} {
					fmt.Fprintf(w, "%v\t%v\t", percentile(all, 50).Round(time.Millisecond), slices.Max(all).Round(time.Millisecond))
				}
				fmt.Fprintln(w)
			}
		})
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	t.Logf("\n%s", &table)
}

// failover is a cluster of nodes that reach their database and coordinator over a network of their own. One goroutine owns it.
type failover struct {
	file   string                                         // the configuration
	folder string                                         // of the notes of the tasks, and of the files that let them go
	holder func(context.Context) (node string, err error) // of the role, as the nodes' coordinator says; "": no node has it
	nodes  []*victim
	starts int // of processes
}

// victim is a node that goes.
type victim struct {
	*running
	name     string // of this process and no other
	database *wiretest.Wire
	external []string         // the addresses of the coordinator's servers; none: the nodes coordinate by the database
	wires    []*wiretest.Wire // all of them
}

// newFailover starts nodes that coordinate by a driver.
func newFailover(t *testing.T, driver string) *failover {
	t.Helper()
	database := tables(t)
	f := &failover{folder: t.TempDir(), holder: roleInDatabase(t, database)}
	part := ""
	var servers []string
	if driver != config.Database {
		servers = ensemble(t, driver)
		c := config.Coordination{Driver: driver, Endpoints: servers, Prefix: prefixOf(t), Lease: failoverLease}
		f.holder = roleInCoordinator(t, c)
		part = fmt.Sprintf(", endpoints: %s, prefix: %s", flow(servers), c.Prefix)
	}
	f.file = write(t, "taskengine.yaml", fmt.Sprintf(failoverConfig, onPostgres(database), driver, failoverLease, part, f.folder))
	for range failoverNodes {
		v := &victim{database: wiretest.New(t, database)}
		v.wires = append(v.wires, v.database)
		for _, server := range servers {
			w := through{wiretest.New(t, "tcp://"+server)}
			v.external, v.wires = append(v.external, w.address()), append(v.wires, w.Wire)
		}
		f.nodes = append(f.nodes, v)
		f.start(t, v)
	}
	return f
}

// ensemble starts servers of a coordinator that end with the test, and returns their addresses.
func ensemble(t *testing.T, driver string) []string {
	t.Helper()
	s, err := startServers(driver, failoverServers)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s.Endpoints()
}

// flow returns addresses as a list in YAML.
func flow(addresses []string) string {
	text, _ := json.Marshal(addresses) // strings can be written
	return string(text)
}

// start starts the process of a node, and returns when it is ready.
func (f *failover) start(t *testing.T, v *victim) {
	t.Helper()
	f.starts++
	v.name = fmt.Sprint("n", f.starts)
	args := []string{
		"run", "-c", f.file, "--set", "storage.url=" + v.database.URL(), "--set", "node.name=" + v.name,
		"--set", "handlers.hold.env.NODE=" + v.name, "--set", "task_log.path=" + t.TempDir(),
	}
	if v.external != nil {
		args = append(args, "--set", "coordination.endpoints="+flow(v.external))
	}
	v.running = start(t, []string{"PATH=" + os.Getenv("PATH")}, args...)
}

// measure has the node go that has the role and runs a task. It returns how long it took until another node had the
// role, and until the task was started on another node. Then it has the node come back.
func (f *failover) measure(t *testing.T, depart func(*testing.T, *victim)) (role, task time.Duration) {
	t.Helper()
	v := f.leader(t)
	id := f.taskOn(t, v)
	time.Sleep(rand.N(failoverLease / 3)) // so that the node goes at any moment between two of its heartbeats
	begin := time.Now()
	depart(t, v)
	var looks sync.WaitGroup
	looks.Go(func() {
		role = lookUntil(t, begin, "no other node has the role", func() (bool, error) {
			name, err := f.holder(t.Context())
			return name != "" && name != v.name, err
		})
	})
	looks.Go(func() {
		task = lookUntil(t, begin, "the task is not started on another node", func() (bool, error) {
			nodes, err := f.startsOf(id)
			return slices.ContainsFunc(nodes, func(node string) bool { return node != v.name }), err
		})
	})
	looks.Wait()
	if t.Failed() {
		t.FailNow()
	}
	f.letGo(t, id)
	_ = v.cmd.Process.Kill() // it has ended, or its network is cut
	<-v.ended
	for _, w := range v.wires {
		w.Heal()
	}
	f.start(t, v)
	return role, task
}

// lookUntil looks every failoverLook until something is so, and returns how long that is after begin. Any goroutine may
// call it.
func lookUntil(t *testing.T, begin time.Time, isNot string, look func() (isSo bool, err error)) time.Duration {
	t.Helper()
	for ; time.Since(begin) < limit; time.Sleep(failoverLook) {
		isSo, err := look()
		after := time.Since(begin)
		if err != nil {
			t.Error(err)
			return 0
		}
		if isSo {
			return after
		}
	}
	t.Errorf("%s after %v", isNot, limit)
	return 0
}

// leader waits until a node has the role, and returns it.
func (f *failover) leader(t *testing.T) *victim {
	t.Helper()
	for begin := time.Now(); time.Since(begin) < limit; time.Sleep(10 * time.Millisecond) {
		name, err := f.holder(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if i := slices.IndexFunc(f.nodes, func(v *victim) bool { return v.name == name }); i >= 0 {
			return f.nodes[i]
		}
	}
	t.Fatal("no node has the role " + failoverRole)
	return nil
}

// taskOn adds tasks until one runs on a node, and returns its id.
func (f *failover) taskOn(t *testing.T, v *victim) string {
	t.Helper()
	for begin := time.Now(); time.Since(begin) < limit; {
		id := v.ok(t, "task", "add", "hold")
		var node string // that has started it
		lookUntil(t, time.Now(), "the task is not started", func() (bool, error) {
			nodes, err := f.startsOf(id)
			if len(nodes) > 0 {
				node = nodes[0]
			}
			return node != "", err
		})
		if node == v.name {
			return id
		}
		f.letGo(t, id)
	}
	t.Fatalf("no task runs on %s", v.name)
	return ""
}

// startsOf returns the nodes that have started a task.
func (f *failover) startsOf(id string) (nodes []string, err error) {
	text, err := os.ReadFile(filepath.Join(f.folder, "starts"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for line := range strings.Lines(string(text)) {
		if of, node, _ := strings.Cut(line, " "); of == id && strings.HasSuffix(node, "\n") {
			nodes = append(nodes, strings.TrimSpace(node))
		}
	}
	return nodes, nil
}

// letGo lets a task end.
func (f *failover) letGo(t *testing.T, id string) { gate(filepath.Join(f.folder, id)).open(t) }

// lease returns the lease that the coordinator has given the nodes.
func (f *failover) lease(t *testing.T) string {
	t.Helper()
	for line := range strings.Lines(f.nodes[0].log.String()) {
		var entry struct{ Msg, Lease string }
		if json.Unmarshal([]byte(line), &entry) == nil && strings.HasPrefix(entry.Msg, "the node is a member of its cluster") {
			return entry.Lease
		}
	}
	t.Fatalf("the node does not say its lease:\n%s", f.nodes[0].log)
	return ""
}

// roleInDatabase returns the leader in a failover of nodes that coordinate by a database.
func roleInDatabase(t *testing.T, url string) func(context.Context) (string, error) {
	t.Helper()
	c := pgtest.Connect(t, url)
	return func(ctx context.Context) (node string, err error) {
		err = c.QueryRow(ctx, `SELECT m.name FROM taskengine.leader l JOIN taskengine.member m USING (session) WHERE l.role = $1`, failoverRole).Scan(&node)
		if errors.Is(err, pgx.ErrNoRows) {
			return "", nil
		}
		return node, err
	}
}

// roleInCoordinator is roleInDatabase for etcd and ZooKeeper.
func roleInCoordinator(t *testing.T, c config.Coordination) func(context.Context) (string, error) {
	t.Helper()
	looker, err := coordinator.Open(t.Context(), c, coordinator.Use{Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := looker.Close(); err != nil {
			t.Error(err)
		}
	})
	return func(ctx context.Context) (string, error) {
		all, err := looker.Contents(ctx)
		for _, l := range all.Leaders {
			if l.Role == failoverRole {
				return l.Node, err
			}
		}
		return "", err
	}
}

func percentile(all []time.Duration, percent int) time.Duration {
	slices.Sort(all)
	return all[len(all)*percent/100]
}
