package e2e

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/taskengine/taskengine/internal/pgtest"
	"github.com/taskengine/taskengine/internal/wiretest"
)

// nodes starts nodes that share a database. Each has its own folder for logs.
func nodes(t *testing.T, file string, n int) []*running {
	t.Helper()
	all := make([]*running, n)
	for i := range all {
		all[i] = nodeOf(t, file, i)
	}
	return all
}

func nodeOf(t *testing.T, file string, i int, sets ...string) *running {
	t.Helper()
	args := []string{"run", "-c", file, "--set", fmt.Sprintf("node.name=n%d", i), "--set", "task_log.path=" + t.TempDir()}
	for _, set := range sets {
		args = append(args, "--set", set)
	}
	return start(t, []string{"PATH=" + os.Getenv("PATH")}, args...)
}

func TestNodesOnOneDatabaseAreOneEngine(t *testing.T) {
	t.Parallel()
	bouncer := databases(t).Bouncer(t, "default_pool_size=10")
	for name, through := range map[string]func(string) string{
		"directly": func(url string) string { return onPostgres(url) },
		"through PgBouncer": func(url string) string {
			return onPostgres(pgtest.Through(bouncer, url)+"&default_query_exec_mode=cache_describe") + "\nbus: {listen: none}"
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := newGate(t)
			file := settingsFor(t, through(tables(t)), g)
			n := nodes(t, file, 3)
			for i := range 30 { // each key belongs to one of the nodes
				n[i%3].ok(t, "task", "add", "copy", "--data", fmt.Sprint(i), "--ordering-key", fmt.Sprint(i), "--wait", "--timeout", "1m")
			}
			// A task that runs somewhere is seen, and cancelled, from anywhere.
			id := n[0].ok(t, "task", "add", "hold")
			n[1].until(t, id, "processing")
			n[2].ok(t, "task", "cancel", id)
			n[1].until(t, id, "cancelled")
			// One that drains leaves its work to the others at once.
			held := n[0].ok(t, "task", "add", "hold", "--ordering-key", "h")
			n[1].until(t, held, "processing")
			for i := range n[1:] {
				n[i].signal(t, syscall.SIGTERM)
			}
			for i := range 10 {
				n[2].ok(t, "task", "add", "copy", "--ordering-key", fmt.Sprint(i), "--wait", "--timeout", "1m")
			}
			g.open(t)
			n[2].ok(t, "task", "wait", held, "--timeout", "1m")
			for i := range n[1:] {
				if code := n[i].exit(t); code != exitOK {
					t.Errorf("a node that drained ended with %d", code)
				}
			}
		})
	}
}

func TestTasksOfAKilledNodeRunElsewhere(t *testing.T) {
	t.Parallel()
	for name, part := range map[string]string{"roles by the database": "", "roles by messages": "\ncoordination: {roles: guid}"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := newGate(t)
			file := settingsFor(t, onPostgres(tables(t))+part, g)
			n := nodes(t, file, 1)
			id := n[0].ok(t, "task", "add", "hold")
			n[0].until(t, id, "processing")
			n = append(n, nodeOf(t, file, 1))
			if err := n[0].cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			<-n[0].ended
			n[1].says(t, "recovered tasks of nodes that are gone")
			g.open(t)
			n[1].ok(t, "task", "wait", id, "--timeout", "1m")
			got := n[1].objects(t, "task", "get", id)[0]
			if got["state"] != "done" || fmt.Sprint(got["attempt"]) != "2" {
				t.Errorf("got %v", got)
			}
		})
	}
}

// The row of a task has the names of the nodes that ran it, so that any node can be asked.
func TestAnyNodeSaysWhereATaskRanAlsoWhenThatNodeIsGone(t *testing.T) {
	t.Parallel()
	g := newGate(t)
	file := settingsFor(t, onPostgres(tables(t)), g)
	first := nodeOf(t, file, 0)
	done, held := first.ok(t, "task", "add", "copy"), first.ok(t, "task", "add", "hold")
	first.ok(t, "task", "wait", done, "--timeout", "1m")
	first.until(t, held, "processing")
	other := nodeOf(t, file, 1)
	where := func(id string) string {
		got := other.objects(t, "task", "get", id)[0]
		text := fmt.Sprint(got["state"], " on ", got["node"])
		if past, ok := got["history"].([]any); ok {
			for _, a := range past {
				text += fmt.Sprint(", before on ", a.(map[string]any)["node"])
			}
		}
		return text
	}
	is := func(id, want string) {
		t.Helper()
		if got := where(id); got != want {
			t.Errorf("the other node says %q, want %q", got, want)
		}
	}
	is(done, "done on n0")
	is(held, "processing on n0")
	if err := first.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-first.ended
	other.says(t, "recovered tasks of nodes that are gone")
	g.open(t)
	other.ok(t, "task", "wait", held, "--timeout", "1m")
	is(done, "done on n0")
	is(held, "done on n1, before on n0")
	if text := other.ok(t, "task", "get", held); !strings.Contains(text, "crashed on n0 at") || !regexp.MustCompile(`(?m)^node +n1$`).MatchString(text) {
		t.Errorf("the text is\n%s", text)
	}
	if text := other.ok(t, "task", "why", done); !strings.Contains(text, "its newest attempt ran on node n0") {
		t.Errorf("why: %s", text)
	}
	if notes := other.cli(t, "task", "logs", held).stderr; !strings.Contains(notes, "attempt 1 ran on node n0, which is not alive now") {
		t.Errorf("the notes beside the log are %q", notes)
	}
}

// A node that cannot reach the database starts nothing and cancels its tasks, before
// another takes it for dead and runs them.
func TestANodeThatIsCutOffIsNotAlone(t *testing.T) {
	t.Parallel()
	s := own(t)
	g := newGate(t)
	database := tablesOn(t, s)
	file := settingsFor(t, onPostgres(database), g)
	w := wiretest.New(t, database)
	cut := nodeOf(t, file, 0, "storage.url="+w.URL())
	id := cut.ok(t, "task", "add", "hold")
	cut.until(t, id, "processing")
	other := nodeOf(t, file, 1)
	w.Stall()
	cut.says(t, "the node cannot prove that it is alive")
	other.says(t, "recovered tasks of nodes that are gone")
	g.open(t)
	other.ok(t, "task", "wait", id, "--timeout", "1m")
	w.Heal()
	for i := range 10 { // some of them are for the node that was cut off, again
		other.ok(t, "task", "add", "copy", "--ordering-key", fmt.Sprint(i), "--wait", "--timeout", "1m")
	}
	cut.ok(t, "task", "add", "copy", "--wait", "--timeout", "1m")
	if got := other.objects(t, "task", "get", id)[0]; got["state"] != "done" || fmt.Sprint(got["attempt"]) != "2" {
		t.Errorf("got %v", got)
	}
}

// What a handler returned while the database was away is kept until it is back.
func TestADatabaseThatIsAwayForAWhileLosesNothing(t *testing.T) {
	t.Parallel()
	s := own(t)
	g := newGate(t)
	file := settingsFor(t, onPostgres(tablesOn(t, s)), g)
	n := nodes(t, file, 2)
	id, queued := n[0].ok(t, "task", "add", "hold"), n[0].ok(t, "task", "add", "hold")
	n[0].until(t, id, "processing")
	if err := s.Crash(); err != nil {
		t.Fatal(err)
	}
	g.open(t)
	for _, one := range n {
		one.says(t, "the node cannot prove that it is alive")
		for begin := time.Now(); ; time.Sleep(askEvery) {
			code, body := one.readiness(t)
			if code == http.StatusServiceUnavailable && strings.Contains(body, "[-] member: ") {
				break
			}
			if time.Since(begin) > limit {
				t.Fatalf("a node without its database is ready: %d, %s", code, body)
			}
		}
	}
	if r := n[0].cli(t, "task", "add", "copy"); r.code != exitUnavailable {
		t.Errorf("a task that cannot be added: %+v", r)
	}
	if err := s.Restart(); err != nil {
		t.Fatal(err)
	}
	n[1].ok(t, "task", "wait", id, queued, "--timeout", "1m")
	got := n[1].objects(t, "task", "get", id)[0]
	if got["state"] != "done" || fmt.Sprint(got["attempt"]) != "1" {
		t.Errorf("the result of its handler was not kept: %v", got)
	}
	n[0].ok(t, "task", "add", "copy", "--wait", "--timeout", "1m")
}

// mischief is how often something is done to three nodes and their database, one after the
// other.
const mischief = 12

func TestNodesThatAreKilledAndStoppedLoseNothing(t *testing.T) {
	t.Parallel()
	s := own(t)
	database := tablesOn(t, s)
	h := &harassment{server: s, database: database, file: filepath.Join(t.TempDir(), "taskengine.yaml")}
	h.endure(t, onPostgres(database))
}

// pace is the pause of each submitter between two tasks: each task is a process.
const pace = 100 * time.Millisecond

// harassment is a series of faults of nodes and their database.
type harassment struct {
	server   *pgtest.Server
	database string                      // of storage.url
	file     string                      // the configuration
	more     map[string]func(*rand.Rand) // further faults of the nodes, by name

	n     []*running
	loads []*load
	all   accepted // by the nodes, as far as loads have ended
	wires []*wiretest.Wire
	done  map[string]int
}

// endure has three nodes work on a storage while they are harassed, and looks whether they
// did all of it, and nothing twice.
func (h *harassment) endure(t *testing.T, storage string) {
	t.Helper()
	journal := filepath.Join(filepath.Dir(h.file), "journal")
	if err := os.WriteFile(h.file, fmt.Appendf(nil, killConfig, storage+"\ncoordination: {lease: 2s}", journal), 0o600); err != nil {
		t.Fatal(err)
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	h.all = newAccepted()
	h.done = make(map[string]int)
	for i := range 3 {
		h.wires = append(h.wires, wiretest.New(t, h.database))
		h.n = append(h.n, h.begin(t, i))
		h.loads = append(h.loads, submitUntilKilled(h.n[i], rng.Uint64(), pace))
	}
	for range mischief {
		h.harass(t, rng)
		time.Sleep(time.Duration(rng.IntN(1000)) * time.Millisecond)
	}
	for _, l := range h.loads {
		l.stop()
		h.all.add(l.acknowledged)
	}
	t.Logf("mischief: %v", h.done)
	for _, typ := range []string{"least", "later", "most"} {
		if got := cli(t, nil, "", "--address", h.n[0].api, "task", "wait", "--type", typ, "--timeout", "2m"); got.code != 0 {
			h.explain(t)
			t.Fatalf("tasks of type %s do not end: %s", typ, got.stderr)
		}
	}
	verifyKilled(t, h.n[0], h.all.types, readJournal(t, journal))
	verifyTurns(t, h.all.keys, journal)
	verifyLimit(t, journal+".spans", 3)
	for _, one := range h.n {
		one.signal(t, syscall.SIGTERM)
		if code := one.exit(t); code != exitOK {
			t.Errorf("a node ended with %d:\n%s", code, one.log)
		}
	}
}

// explain logs which tasks live on, and why.
func (h *harassment) explain(t *testing.T) {
	t.Helper()
	api := h.n[0].api
	t.Logf("counted:\n%s", cli(t, nil, "", "--address", api, "task", "count").stdout)
	for _, state := range []string{"waiting", "submitted", "processing"} {
		list := cli(t, nil, "", "--address", api, "task", "list", "--state", state, "--limit", "3", "-o", "json")
		for _, one := range parse(t, list.stdout) {
			for _, n := range h.n {
				t.Logf("%v: %s", one, cli(t, nil, "", "--address", n.api, "task", "why", fmt.Sprint(one["id"])).stdout)
			}
		}
	}
}

func (h *harassment) begin(t *testing.T, i int) *running {
	t.Helper()
	return nodeOf(t, h.file, i, "storage.url="+h.wires[i].URL())
}

// harass does one thing.
func (h *harassment) harass(t *testing.T, rng *rand.Rand) {
	t.Helper()
	kinds := append([]string{"kill", "stop", "cut of the network", "crash of the database"}, slices.Sorted(maps.Keys(h.more))...)
	kind, victim := kinds[rng.IntN(len(kinds))], rng.IntN(3)
	h.done[kind]++
	switch kind {
	case "kill":
		if err := h.n[victim].cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		<-h.n[victim].ended
		h.loads[victim].wait()
		h.all.add(h.loads[victim].acknowledged)
		h.n[victim] = h.begin(t, victim)
		h.loads[victim] = submitUntilKilled(h.n[victim], rng.Uint64(), pace)
	case "stop": // it is taken for dead, and comes back
		h.n[victim].signal(t, syscall.SIGSTOP)
		time.Sleep(time.Duration(500+rng.IntN(5000)) * time.Millisecond)
		h.n[victim].signal(t, syscall.SIGCONT)
	case "cut of the network":
		h.wires[victim].Stall()
		time.Sleep(time.Duration(500+rng.IntN(5000)) * time.Millisecond)
		h.wires[victim].Heal()
	case "crash of the database":
		if err := h.server.Crash(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Duration(rng.IntN(3000)) * time.Millisecond)
		if err := h.server.Restart(); err != nil {
			t.Fatal(err)
		}
	default:
		h.more[kind](rng)
	}
}
