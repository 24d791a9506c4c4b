//go:build unix

// Package cluster_test runs three nodes on a PostgreSQL server of its own, kills one, and changes a limit of
// all of them. The nodes coordinate by that server, by etcd or by ZooKeeper. It prints the events, and verifies the
// notes of the handlers.
package cluster_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/taskengine/taskengine/internal/pgtest"
	"github.com/taskengine/taskengine/internal/servertest"
)

const (
	partners = 15
	each     = 12 // payouts for each of them
)

var ( // set once, before the tests
	server  *pgtest.Server
	drivers []string // by which nodes coordinate, one example for each
)

func TestMain(m *testing.M) {
	var err error
	if drivers, err = chosen(os.Getenv("COORD")); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(pgtest.Run(m, func(s *pgtest.Server) { server = s }))
}

// example is the common state of all nodes.
type example struct {
	program string            // taskengine
	driver  string            // by which they coordinate
	group   *servertest.Group // ends the nodes with this process, and removes their files
	file    string            // their configuration
	env     []string
	journal journal
	gate    string
}

// node is a process.
type node struct {
	*servertest.Process
	name, api string
	log       string // a file
	ended     bool
}

// newGroup returns a group that ends with the test, or with this process if that is killed.
func newGroup(t *testing.T) *servertest.Group {
	t.Helper()
	g, err := servertest.NewGroup("cluster", nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := g.Close(); err != nil {
			t.Error(err)
		}
	})
	return g
}

// build returns the path of taskengine.
func build(t *testing.T) string {
	t.Helper()
	program := filepath.Join(newGroup(t).Folder(), "taskengine")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", program, "../../cmd/taskengine").CombinedOutput(); err != nil {
		t.Fatalf("build taskengine: %v: %s", err, out)
	}
	return program
}

func newExample(t *testing.T, program, driver string) *example {
	t.Helper()
	group := newGroup(t)
	in := func(name string) string { return filepath.Join(group.Folder(), name) }
	x := &example{program: program, driver: driver, group: group, file: in("taskengine.yaml"), journal: journal(in("journal")), gate: in("gate")}
	x.prepare(t)
	if err := syscall.Mkfifo(x.gate, 0o600); err != nil {
		t.Fatal(err)
	}
	x.env = []string{"PATH=" + os.Getenv("PATH"), "DATABASE=" + server.Database(t), "JOURNAL=" + string(x.journal), "GATE=" + x.gate}
	x.run(t, &node{name: "none"}, "migrate", "apply", "-c", x.file)
	return x
}

// run runs a command of taskengine, and returns its output.
func (x *example) run(t *testing.T, n *node, args ...string) string {
	t.Helper()
	c := exec.CommandContext(t.Context(), x.program, args...)
	c.Env = append([]string{"NODE=" + n.name, "TASKENGINE_ADDRESS=" + n.api}, x.env...)
	out, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("taskengine %s: %v: %s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

// start runs a node, which ends with the test, and returns when it is ready.
func (x *example) start(t *testing.T, name string) *node {
	t.Helper()
	n := &node{name: name, log: filepath.Join(x.group.Folder(), name+".log")}
	command := append([]string{"-i", "NODE=" + name}, x.env...)
	command = append(command, x.program, "run", "-c", x.file, "--set", "task_log.path="+name+"-tasks",
		"--set", "api.listen=127.0.0.1:0", "--set", "admin.listen=127.0.0.1:0", "--set", "node.log.format=json")
	var err error
	if n.Process, err = x.group.Start(name, "env", command...); err != nil {
		t.Fatal(err)
	}
	if err := n.Await(n.ready); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			said, err := os.ReadFile(n.log)
			t.Logf("%s said (%v):\n%s", name, err, said)
		}
		n.end(t, syscall.SIGKILL)
	})
	return n
}

// ready returns nil when the log says that the node is ready, and notes the address of its API.
func (n *node) ready(context.Context) error {
	f, err := os.Open(n.log)
	if err != nil {
		return err
	}
	defer f.Close()
	s := bufio.NewScanner(f)
	for s.Scan() {
		var entry struct{ Msg, API string }
		if json.Unmarshal(s.Bytes(), &entry) == nil && entry.Msg == "ready" {
			n.api = entry.API
			return nil
		}
	}
	return errors.Join(s.Err(), errors.New("it is not ready"))
}

// end sends a signal to the node if it runs, and returns when it and its handlers are gone.
func (n *node) end(t *testing.T, signal syscall.Signal) {
	t.Helper()
	if n.ended {
		return
	}
	n.ended = true
	if err := n.End(signal); err != nil {
		t.Errorf("the end of %s: %v", n.name, err)
	}
}

// await returns when something has come about.
func await(t *testing.T, what string, is func() bool) {
	t.Helper()
	for begin := time.Now(); !is(); time.Sleep(20 * time.Millisecond) {
		if time.Since(begin) > 5*time.Minute {
			t.Fatalf("not within five minutes: %s", what)
		}
	}
}

// say prints an event for the reader.
func say(format string, args ...any) { fmt.Printf("== "+format+"\n", args...) }

// show prints the output of a command without its lines about single tasks.
func (x *example) show(t *testing.T, n *node, args ...string) {
	t.Helper()
	fmt.Println("   $ taskengine", strings.ReplaceAll(strings.Join(args, " "), x.file, filepath.Base(x.file)))
	for s := range strings.Lines(x.run(t, n, args...)) {
		if !strings.HasPrefix(strings.TrimSpace(s), "task ") {
			fmt.Println("  ", strings.TrimSuffix(s, "\n"))
		}
	}
}

func TestTheLimitHoldsThoughANodeIsKilledAndTheLimitIsChanged(t *testing.T) {
	program := build(t)
	for _, driver := range drivers {
		t.Run(driver, func(t *testing.T) { newExample(t, program, driver).play(t) })
	}
}

// play follows the README.
func (x *example) play(t *testing.T) {
	t.Helper()
	nodes := []*node{x.start(t, "n1"), x.start(t, "n2"), x.start(t, "n3")}
	x.journal.note(t, "limit 30")
	x.submit(t, nodes[0])
	x.awaitRunning(t, 30)
	x.show(t, nodes[0], "limit", "why", "payouts")

	nodes, killed := x.kill(t, nodes)
	begin := time.Now()
	x.awaitRunning(t, 30)
	say("%.1f s later 30 run again, on two nodes: they got the %d permits of the dead node when its lease was over", time.Since(begin).Seconds(), killed)
	x.show(t, nodes[0], "limit", "why", "payouts")

	x.show(t, nodes[0], "limit", "set", "payouts", "--max", "10")
	gate := x.openGate(t)
	defer gate.Close()
	await(t, "no more than 10 permits are held", func() bool { return x.held(t, nodes[0]) <= 10 })
	x.journal.note(t, "limit 10")
	before := x.journal.examine(t).begun
	await(t, "40 more payouts begin", func() bool { return x.journal.examine(t).begun >= before+40 })
	say("what ran when the limit was lowered has ended, and 40 more have begun: at most %d at once", x.journal.examine(t).mostAtLast)
	for _, l := range x.journal.examine(t).running {
		x.show(t, nodes[1], "limit", "why", "partner/"+l.partner)
		break
	}
	x.journal.note(t, "limit 30")
	x.show(t, nodes[1], "limit", "unset", "payouts")
	x.run(t, nodes[0], "task", "wait", "--type", "payout", "--timeout", "10m")
	x.verify(t, nodes[0])
	x.coordination(t, nodes)
	for _, n := range nodes {
		n.end(t, syscall.SIGTERM)
	}
	say("the nodes have stopped")
}

// submit adds the payouts.
func (x *example) submit(t *testing.T, n *node) {
	t.Helper()
	var file strings.Builder
	for i := range partners * each {
		fmt.Fprintf(&file, `{"type": "payout", "data": {"partner": "partner-%d"}, "key": "payout-%d"}`+"\n", i%partners, i)
	}
	path := filepath.Join(x.group.Folder(), "payouts.jsonl")
	if err := os.WriteFile(path, []byte(file.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	say("%d payouts for %d partners", partners*each, partners)
	x.run(t, n, "task", "add", "--file", path)
}

// awaitRunning waits until so many payouts run.
func (x *example) awaitRunning(t *testing.T, want int) {
	t.Helper()
	await(t, fmt.Sprint(want, " payouts run"), func() bool { return len(x.journal.examine(t).running) == want })
}

// kill kills the node that runs most payouts, and returns the others, and how many it ran.
func (x *example) kill(t *testing.T, nodes []*node) (left []*node, ran int) {
	t.Helper()
	running := make(map[string]int) // payouts, by node
	for _, l := range x.journal.examine(t).running {
		running[l.node]++
	}
	victim := nodes[0]
	for _, n := range nodes {
		if running[n.name] > running[victim.name] {
			victim = n
		}
	}
	say("kill -9 %s, which runs %d payouts; nothing of it lives on", victim.name, running[victim.name])
	victim.end(t, syscall.SIGKILL)
	x.journal.note(t, "gone "+victim.name)
	for _, n := range nodes {
		if n != victim {
			left = append(left, n)
		}
	}
	return left, running[victim.name]
}

// openGate lets payouts end while the file that it returns is open.
func (x *example) openGate(t *testing.T) *os.File {
	t.Helper()
	f, err := os.OpenFile(x.gate, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// held returns how many permits of the limit payouts all nodes have.
func (x *example) held(t *testing.T, n *node) (sum int) {
	t.Helper()
	var why struct{ Nodes []struct{ Held int } }
	if out := x.run(t, n, "limit", "why", "payouts", "-o", "json"); json.Unmarshal([]byte(out), &why) != nil {
		t.Fatalf("limit why prints %s", out)
	}
	for _, one := range why.Nodes {
		sum += one.Held
	}
	return sum
}

// verify compares the notes of the handlers with the promises, and prints the result.
func (x *example) verify(t *testing.T, n *node) {
	t.Helper()
	x.show(t, n, "task", "count")
	c := x.journal.examine(t)
	say("the handlers' own records: at most %d ran at once, and at most %d for one partner; %d payouts began %d times, never twice at once", c.most, c.mostOfOne, len(c.paid), c.begun)
	for _, wrong := range c.wrong {
		t.Error(wrong)
	}
	if len(c.paid) != partners*each || len(c.running) > 0 || c.most != 30 {
		t.Errorf("%d payouts were paid, %d still run, and at most %d ran at once", len(c.paid), len(c.running), c.most)
	}
	var done []struct {
		State string
		Count int
	}
	for text := range strings.Lines(x.run(t, n, "task", "count", "-o", "json")) {
		done = append(done, struct {
			State string
			Count int
		}{})
		if err := json.Unmarshal([]byte(text), &done[len(done)-1]); err != nil {
			t.Fatal(err)
		}
	}
	if len(done) != 1 || done[0].State != "done" || done[0].Count != partners*each {
		t.Errorf("the tasks are %v", done)
	}
}
