package e2e

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/taskengine/taskengine/internal/certtest"
	"github.com/taskengine/taskengine/internal/freeze"
	"github.com/taskengine/taskengine/internal/wiretest"
)

// worker is a handler program that the test has started by itself.
type worker struct {
	cmd    *exec.Cmd
	stderr io.Closer // the reading end of the worker's log
	log    *lines
	ended  chan struct{} // closed when the process has ended
}

// launcher starts a worker of the nodes at an address.
type launcher func(t testing.TB, address string, env ...string) *worker

// startWorker runs a worker of the nodes at an address.
func startWorker(t testing.TB, address string, env ...string) *worker {
	t.Helper()
	return runWorker(t, program(context.Background(), t, append(env, role+"=plugin", "TASKENGINE_ADDRESS="+address)))
}

// runWorker starts a worker.
func runWorker(t testing.TB, cmd *exec.Cmd) *worker {
	t.Helper()
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	w := &worker{cmd: cmd, stderr: stderr, log: new(lines), ended: make(chan struct{})}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(w.ended)
		for s := bufio.NewScanner(stderr); s.Scan(); {
			w.log.add(s.Text())
		}
		_ = cmd.Wait() // ProcessState has the exit code
	}()
	t.Cleanup(func() {
		w.kill(t)
		if t.Failed() {
			t.Logf("a worker's log:\n%s", w.log)
		}
	})
	return w
}

// awaitConnected waits until the worker says that it is connected. Before, it may not have heard that it is to end.
func (w *worker) awaitConnected(t testing.TB) {
	t.Helper()
	w.says(t, "connected to the node")
}

// says waits until the worker's log has a text.
func (w *worker) says(t testing.TB, text string) {
	t.Helper()
	w.saysOften(t, text, 1)
}

// saysOften waits until the worker's log has a text so many times.
func (w *worker) saysOften(t testing.TB, text string, times int) {
	t.Helper()
	if !w.log.await(text, times) {
		t.Fatalf("the worker does not say %q %d times:\n%s", text, times, w.log)
	}
}

func (w *worker) kill(t testing.TB) {
	t.Helper()
	_ = w.cmd.Process.Kill() // an error says that it has ended
	<-w.ended
}

func (w *worker) signal(t testing.TB, s syscall.Signal) {
	t.Helper()
	send := w.cmd.Process.Signal
	if s == syscall.SIGSTOP {
		send = func(os.Signal) error { return freeze.Stop(w.cmd.Process.Pid) }
	}
	if err := send(s); err != nil {
		t.Fatal(err)
	}
}

// metrics returns the metrics of the admin listener of the node.
func (n *running) metrics(t *testing.T) string {
	t.Helper()
	_, body := n.admins(t, "/metrics")
	return body
}

const workerConfig = `
storage: {driver: memory}
handlers: {shout: {remote: {}}}
types: {shout: {handler: shout}}
`

// addShout adds a task of the type shout and returns its id.
func addShout(t *testing.T, n *running) string {
	t.Helper()
	return fmt.Sprint(n.objects(t, "task", "add", "shout", "--data", `"hello"`)[0]["id"])
}

func TestANodeRunsTasksInWorkersThatConnect(t *testing.T) {
	t.Parallel()
	testConnects(t, startWorker)
}

func testConnects(t *testing.T, launch launcher) {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "api.sock")
	n := start(t, nil, "run", "-c", write(t, "taskengine.yaml", workerConfig), "--set", "api.socket="+socket)
	id := addShout(t, n)
	if why := n.ok(t, "task", "why", id); !strings.Contains(why, `no worker of handler "shout" is connected`) {
		t.Errorf("why says %s", why)
	}
	if code, body := n.readiness(t); code != http.StatusOK || !strings.Contains(body, `handler shout: takes no tasks: no worker of handler "shout" is connected`) {
		t.Errorf("without a worker the node is ready (%d): %s", code, body)
	}
	if m := n.metrics(t); !strings.Contains(m, `taskengine_handler_up{handler="shout"} 0`) {
		t.Errorf("without a worker the metrics are\n%s", m)
	}
	w := launch(t, "unix:"+socket)
	if got := n.until(t, id, "done"); got["result"] != "HELLO" {
		t.Errorf("the task is %v", got)
	}
	if m := n.metrics(t); !strings.Contains(m, `taskengine_handler_up{handler="shout"} 1`) {
		t.Errorf("with a worker the metrics are\n%s", m)
	}
	w.signal(t, syscall.SIGTERM)
	<-w.ended
	if code := w.cmd.ProcessState.ExitCode(); code != 0 {
		t.Errorf("the worker ended with %d: %s", code, w.log)
	}
	n.says(t, "a worker has left")
}

func TestAWorkerIsListedAndDrained(t *testing.T) {
	t.Parallel()
	testDrained(t, startWorker)
}

func testDrained(t *testing.T, launch launcher) {
	t.Helper()
	audit := filepath.Join(t.TempDir(), "audit.jsonl")
	n := start(t, nil, "run", "-c", write(t, "taskengine.yaml", workerConfig), "--set", "api.audit="+audit)
	if got := n.objects(t, "worker", "list"); len(got) != 0 {
		t.Errorf("without a worker the list is %v", got)
	}
	if r := n.cli(t, "worker", "drain", "shout/1"); r.code != 4 || !strings.Contains(r.stderr, `"shout/1"`) {
		t.Errorf("a drain of no worker ends with %d: %s", r.code, r.stderr)
	}
	w, other := launch(t, n.api), launch(t, n.api)
	w.awaitConnected(t)
	other.awaitConnected(t)
	all := n.objects(t, "worker", "list")
	if len(all) != 2 || all[0]["handler"] != "shout" || all[0]["state"] != "serving" || all[0]["id"] == all[1]["id"] {
		t.Fatalf("the workers are %v", all)
	}
	if table := n.ok(t, "worker", "list", "-o", "table"); !strings.Contains(table, "serving") || !strings.Contains(table, "0/") {
		t.Errorf("the table is\n%s", table)
	}
	id := fmt.Sprint(all[0]["id"])
	if got := n.objects(t, "worker", "drain", id); len(got) != 1 || got[0]["id"] != id || got[0]["state"] != "draining" {
		t.Errorf("worker drain shows %v", got)
	}
	drained, left := w, other
	select {
	case <-w.ended:
	case <-other.ended:
		drained, left = other, w
	}
	if code := drained.cmd.ProcessState.ExitCode(); code != 0 {
		t.Errorf("the drained worker ended with %d: %s", code, drained.log)
	}
	n.until(t, addShout(t, n), "done") // by the other one
	if got := n.objects(t, "worker", "list"); len(got) != 1 || got[0]["id"] != all[1]["id"] {
		t.Errorf("after a drain the workers are %v", got)
	}
	name := fmt.Sprint(all[1]["name"])
	n.ok(t, "worker", "drain", name)
	<-left.ended
	lines, err := os.ReadFile(audit)
	if text := string(lines); err != nil || !strings.Contains(text, `"verb":"DrainWorker","outcome":"ok"`) || !strings.Contains(text, id) {
		t.Errorf("the audit log has %s, and %v", text, err)
	}
}

func TestANodeThatStopsLeavesItsWorkersRunning(t *testing.T) {
	t.Parallel()
	testStays(t, startWorker)
}

func testStays(t *testing.T, launch launcher) {
	t.Helper()
	file := write(t, "taskengine.yaml", workerConfig)
	n := start(t, nil, "run", "-c", file)
	launch(t, n.api)
	n.until(t, addShout(t, n), "done")
	n.signal(t, syscall.SIGTERM)
	if code := n.exit(t); code != 0 {
		t.Errorf("the node ended with %d", code)
	}
	if strings.Contains(n.log.String(), "did not close cleanly") {
		t.Error("a part of the node did not close cleanly")
	}
	n = startAt(t, n.api, nil, "run", "-c", file)
	n.until(t, addShout(t, n), "done")
}

// heldConfig makes a node that awaits the answers of its workers for a long time after a start.
const heldConfig = `
storage: %s
handlers: {note: {remote: {reconnect: 50s}}}
types: {held: {handler: note, delivery: at_most_once}}
`

func TestTheAnswersOfAWorkerOutliveTheNode(t *testing.T) {
	t.Parallel()
	testAnswersOutlive(t, startWorker)
}

// A worker has an answer when its node is dead. The next node gets it, with the task that it adds: no task runs twice.
func testAnswersOutlive(t *testing.T, launch launcher) {
	t.Helper()
	folder := t.TempDir()
	journal, open := filepath.Join(folder, "journal"), filepath.Join(folder, "open")
	file := write(t, "taskengine.yaml", fmt.Sprintf(heldConfig, storageOf(t, "pebble")))
	n := start(t, nil, "run", "-c", file)
	launch(t, n.api, "JOURNAL="+journal)
	id := fmt.Sprint(n.objects(t, "task", "add", "held", "--data", "@"+write(t, "payload", open))[0]["id"])
	awaitFile(t, journal)
	if err := n.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-n.ended
	if err := os.WriteFile(open, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	n = startAt(t, n.api, nil, "run", "-c", file)
	got := n.until(t, id, "done")
	if got["result_text"] != "held" || fmt.Sprint(got["attempt"]) != "1" {
		t.Errorf("the task is %v", got)
	}
	if runs := readJournal(t, journal); len(runs) != 1 || runs["held "+id] != 1 {
		t.Errorf("the handler was called %v", runs)
	}
	verifyChildren(t, n, "held")
}

// workersConfig makes a node with workers that note the task of every call.
const workersConfig = `
node: {slots: 64}
storage: %s
handlers: {note: {remote: {reconnect: 1s, liveness: 2s}}}
types:
  least: {handler: note, max_crashes: 0, retry: {max: 100, backoff: none}}
  later: {handler: note, max_crashes: 0, retry: {max: 100, backoff: none}}
  most: {handler: note, delivery: at_most_once}
`

const (
	disturbedRounds = 4
	crewSize        = 4
)

// crew is workers, each with a network of its own to the node.
type crew struct {
	launch  launcher
	workers []*worker
	wires   []*wiretest.Wire
	journal string
}

// newCrew starts workers of the node at an address.
func newCrew(t *testing.T, launch launcher, address, journal string) *crew {
	f := &crew{launch: launch, journal: journal}
	for i := range crewSize {
		f.wires = append(f.wires, wiretest.New(t, "tcp://"+address))
		f.workers = append(f.workers, nil)
		f.start(t, i)
	}
	return f
}

func (f *crew) start(t *testing.T, i int) {
	f.workers[i] = f.launch(t, strings.TrimPrefix(f.wires[i].URL(), "tcp://"), "JOURNAL="+f.journal)
	f.workers[i].awaitConnected(t)
}

// disturb does one thing to one worker that may happen to it, and repairs it.
func (f *crew) disturb(t *testing.T, rng *rand.Rand) {
	i, pause := rng.IntN(crewSize), time.Duration(rng.IntN(4000))*time.Millisecond
	w, wire := f.workers[i], f.wires[i]
	what := []string{"killed", "stopped", "cut", "stalled", "asked to end"}[rng.IntN(5)]
	t.Logf("worker %d is %s, for %v", i, what, pause)
	switch what {
	case "killed":
		w.kill(t)
		f.start(t, i)
	case "stopped":
		w.signal(t, syscall.SIGSTOP)
		time.Sleep(pause) // shorter and longer than the node waits
		w.signal(t, syscall.SIGCONT)
	case "cut":
		wire.Cut()
		time.Sleep(pause)
		wire.Heal()
	case "stalled":
		wire.Stall()
		time.Sleep(pause)
		wire.Heal() // messages on the way are lost
	case "asked to end":
		w.signal(t, syscall.SIGTERM)
		<-w.ended
		if code := w.cmd.ProcessState.ExitCode(); code != 0 {
			t.Errorf("a worker that was asked to end ended with %d: %s", code, w.log)
		}
		f.start(t, i)
	}
}

// Workers and their node are killed, stand still and are cut off while tasks run. Each accepted task is done in the end,
// no task with at_most_once runs twice, and the tasks that they add exist once for each that is done, and for no other.
func TestNoTaskIsLostWhateverHappensToWorkersAndTheirNode(t *testing.T) {
	t.Parallel()
	testDisturbed(t, startWorker)
}

func testDisturbed(t *testing.T, launch launcher) {
	t.Helper()
	folder := t.TempDir()
	journal, file := filepath.Join(folder, "journal"), filepath.Join(folder, "taskengine.yaml")
	if err := os.WriteFile(file, fmt.Appendf(nil, workersConfig, storageOf(t, "pebble")), 0o600); err != nil {
		t.Fatal(err)
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	all := newAccepted()
	n := start(t, nil, "run", "-c", file)
	f := newCrew(t, launch, n.api, journal)
	for range disturbedRounds {
		load := submitUntilKilled(n, rng.Uint64(), 50*time.Millisecond)
		load.awaitAccepted(t, fewest*kills/disturbedRounds+1)
		for range 3 {
			f.disturb(t, rng)
		}
		if err := n.cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		<-n.ended
		load.wait()
		all.add(load.acknowledged)
		n = startAt(t, n.api, nil, "run", "-c", file)
	}
	for _, typ := range []string{"least", "later", "most"} {
		if got := cli(t, nil, "", "--address", n.api, "task", "wait", "--type", typ, "--timeout", "50s"); got.code != 0 {
			t.Fatalf("tasks of type %s do not end: %s", typ, got.stderr)
		}
	}
	verifyKilled(t, n, all.types, readJournal(t, journal))
	verifyTurns(t, all.keys, journal)
	verifyChildren(t, n, "least", "later", "most")
}

// A worker of another machine needs TLS, a token with its role, and a certificate. It is cut off when its token is revoked.
func TestAWorkerNeedsATokenAndTheCertificatesOfANodeThatWantsThem(t *testing.T) {
	t.Parallel()
	testAccess(t, startWorker)
}

func testAccess(t *testing.T, launch launcher) {
	t.Helper()
	a, clients := certtest.New(t), certtest.New(t)
	own, mine := a.Issue(t, "node", "127.0.0.1"), clients.Issue(t, "worker")
	tokens := filepath.Join(t.TempDir(), "tokens.json")
	file := write(t, "taskengine.yaml", fmt.Sprintf(`storage: {driver: memory}
handlers: {loud: {remote: {liveness: 1s}}}
types: {shout: {handler: loud}}
api: {tls: {cert: %q, key: %q, client_ca: %q}, tokens: %q}
`, own.File, own.KeyFile, clients.File, tokens))
	create := func(name, role, typ string) string {
		r := cli(t, nil, "", "token", "create", name, "-c", file, "--role", role, "--type", typ)
		if r.code != exitOK {
			t.Fatalf("create: %+v", r)
		}
		return strings.TrimSpace(r.stdout)
	}
	works, others, submits := create("works", "work", "sho*"), create("others", "work", "mail"), create("submits", "submit", "shout")
	n := start(t, nil, "run", "-c", file)
	env := []string{"TASKENGINE_CA=" + a.File, "TASKENGINE_CLIENT_CERT=" + mine.File, "TASKENGINE_CLIENT_KEY=" + mine.KeyFile}
	add := func(args ...string) result {
		return cli(t, append(env, "TASKENGINE_ADDRESS="+n.api, "TASKENGINE_TOKEN="+submits), "", append([]string{"task", "add", "shout", "--data", `"psst"`}, args...)...)
	}
	for says, with := range map[string][]string{
		"the node wants a token":         env,
		"a worker needs the role work":   append(env[:3:3], "TASKENGINE_TOKEN="+submits),
		"is for tasks of the types mail": append(env[:3:3], "TASKENGINE_TOKEN="+others),
		"certificate":                    {"TASKENGINE_CA=" + a.File, "TASKENGINE_TOKEN=" + works},
	} {
		w := launch(t, n.api, with...)
		w.says(t, says)
		w.kill(t)
		for _, token := range []string{works, others, submits} {
			if strings.Contains(w.log.String(), token) {
				t.Errorf("the log of a worker has a token: %s", w.log)
			}
		}
	}
	w := launch(t, "https://"+n.api, append(env, "TASKENGINE_TOKEN="+works)...)
	if r := add("--wait"); r.code != exitOK || !strings.Contains(r.stdout, "PSST") {
		t.Errorf("a task of the worker: %+v", r)
	}
	if r := cli(t, nil, "", "token", "revoke", "works", "-c", file); r.code != exitOK {
		t.Fatalf("revoke: %+v", r)
	}
	w.says(t, "the node does not know the token")
	r := add()
	if r.code != exitOK {
		t.Fatalf("add: %+v", r)
	}
	launch(t, n.api, append(env, "TASKENGINE_TOKEN="+create("next", "work", "shout"))...)
	wait := []string{"task", "wait", strings.TrimSpace(r.stdout), "--timeout", limit.String()}
	if r := cli(t, append(env, "TASKENGINE_ADDRESS="+n.api, "TASKENGINE_TOKEN="+submits), "", wait...); r.code != exitOK {
		t.Fatalf("the next worker does not run the task: %+v", r)
	}
	for _, text := range []string{works, others, submits} {
		if strings.Contains(n.log.String(), text) {
			t.Error("a token is in the log of the node")
		}
	}
}

// verifyChildren looks that each task of these types that is done has added exactly one task, and no other has.
func verifyChildren(t *testing.T, n *running, types ...string) {
	t.Helper()
	children := make(map[string]int) // by their parents
	for _, c := range n.objects(t, "task", "list", "--type", "child", "--all") {
		headers, _ := c["headers"].(map[string]any)
		children[fmt.Sprint(headers["of"])]++
	}
	done, others := 0, 0
	for _, typ := range types {
		for _, p := range n.objects(t, "task", "list", "--type", typ, "--all") {
			id, want := fmt.Sprint(p["id"]), 0
			if p["state"] == "done" {
				want = 1
				done++
			} else {
				others++
			}
			if children[id] != want {
				t.Errorf("task %s of type %s is %v and has added %d tasks, want %d", id, typ, p["state"], children[id], want)
			}
			delete(children, id)
		}
	}
	if done == 0 || len(children) > 0 {
		t.Errorf("%d tasks are done, and other tasks than these have added %v", done, children)
	}
	t.Logf("%d tasks that are done have added one task each, and %d others none", done, others)
}
