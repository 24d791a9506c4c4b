package main

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/url"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/taskengine/taskengine/internal/pgtest"
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
	g := newGate(t)
	file := settingsFor(t, onPostgres(tables(t)), g)
	n := nodes(t, file, 1)
	id := n[0].ok(t, "task", "add", "hold")
	n[0].until(t, id, "processing")
	n = append(n, nodeOf(t, file, 1))
	if err := n[0].cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-n[0].ended
	n[1].says(t, "recovered tasks whose nodes are gone")
	g.open(t)
	n[1].ok(t, "task", "wait", id, "--timeout", "1m")
	got := n[1].objects(t, "task", "get", id)[0]
	if got["state"] != "done" || fmt.Sprint(got["attempt"]) != "2" {
		t.Errorf("got %v", got)
	}
}

// A node that cannot reach the database starts nothing and cancels what it runs, before
// another takes it for dead and runs that.
func TestANodeThatIsCutOffIsNotAlone(t *testing.T) {
	s := own(t)
	g := newGate(t)
	database := tablesOn(t, s)
	file := settingsFor(t, onPostgres(database), g)
	u, err := url.Parse(database)
	if err != nil {
		t.Fatal(err)
	}
	w := newWire(t, u.Host)
	cut := nodeOf(t, file, 0, "storage.url="+w.through(t, database))
	id := cut.ok(t, "task", "add", "hold")
	cut.until(t, id, "processing")
	other := nodeOf(t, file, 1)
	w.cut()
	cut.says(t, "the node cannot prove that it is alive")
	other.says(t, "recovered tasks whose nodes are gone")
	g.open(t)
	other.ok(t, "task", "wait", id, "--timeout", "1m")
	w.mend()
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
	}
	if err := s.Restart(); err != nil {
		t.Fatal(err)
	}
	n[1].ok(t, "task", "wait", id, queued, "--timeout", "1m")
	got := n[1].objects(t, "task", "get", id)[0]
	if got["state"] != "done" || fmt.Sprint(got["attempt"]) != "1" {
		t.Errorf("what its handler returned was not kept: %v", got)
	}
	n[0].ok(t, "task", "add", "copy", "--wait", "--timeout", "1m")
}

// mischief is what is done to three nodes and their database, one after the other.
const mischief = 12

func TestNodesThatAreKilledAndStoppedLoseNothing(t *testing.T) {
	s := own(t)
	folder := t.TempDir()
	journal := filepath.Join(folder, "journal")
	file := filepath.Join(folder, "taskengine.yaml")
	database := tablesOn(t, s)
	storage := onPostgres(database) + "\ncoordination: {lease: 2s}"
	if err := os.WriteFile(file, fmt.Appendf(nil, killConfig, storage, journal), 0o600); err != nil {
		t.Fatal(err)
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	acknowledged := make(map[string]string) // id to type
	u, err := url.Parse(database)
	if err != nil {
		t.Fatal(err)
	}
	var wires []*wire
	begin := func(i int) *running { return nodeOf(t, file, i, "storage.url="+wires[i].through(t, database)) }
	var n []*running
	var loads []*load
	for i := range 3 {
		wires = append(wires, newWire(t, u.Host))
		n = append(n, begin(i))
		loads = append(loads, submitUntilKilled(n[i], rng.Uint64()))
	}
	done := make(map[string]int)
	for range mischief {
		victim := rng.IntN(3)
		switch rng.IntN(4) {
		case 0:
			done["kill"]++
			if err := n[victim].cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			<-n[victim].ended
			loads[victim].wait()
			maps.Copy(acknowledged, loads[victim].acknowledged)
			n[victim] = begin(victim)
			loads[victim] = submitUntilKilled(n[victim], rng.Uint64())
		case 1: // it is taken for dead, and comes back
			done["stop"]++
			n[victim].signal(t, syscall.SIGSTOP)
			time.Sleep(time.Duration(500+rng.IntN(5000)) * time.Millisecond)
			n[victim].signal(t, syscall.SIGCONT)
		case 2:
			done["cut of the network"]++
			wires[victim].cut()
			time.Sleep(time.Duration(500+rng.IntN(5000)) * time.Millisecond)
			wires[victim].mend()
		case 3:
			done["crash of the database"]++
			if err := s.Crash(); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Duration(rng.IntN(3000)) * time.Millisecond)
			if err := s.Restart(); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Duration(rng.IntN(1000)) * time.Millisecond)
	}
	for i := range loads {
		loads[i].stop()
		maps.Copy(acknowledged, loads[i].acknowledged)
	}
	t.Logf("mischief: %v", done)
	for _, typ := range []string{"least", "later", "most"} {
		if got := cli(t, nil, "", "--address", n[0].api, "task", "wait", "--type", typ, "--timeout", "50s"); got.code != 0 {
			t.Fatalf("tasks of type %s do not end: %s", typ, got.stderr)
		}
	}
	verifyKilled(t, n[0], acknowledged, readJournal(t, journal))
	for _, one := range n {
		one.signal(t, syscall.SIGTERM)
		if code := one.exit(t); code != exitOK {
			t.Errorf("a node ended with %d:\n%s", code, one.log)
		}
	}
}
