// Package e2e tests the whole program: nodes in processes of their own, which the tests kill, stop
// and cut off, and the commands that manage them. The test binary is the program, too: TestMain
// runs the command line if an environment variable says so. Tests of a single part are beside it.
package e2e

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	commandline "github.com/taskengine/taskengine/cmd/taskengine/internal/cli"
	"github.com/taskengine/taskengine/internal/freeze"
	"github.com/taskengine/taskengine/plugins/handler"
	"github.com/taskengine/taskengine/server"
	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
	"github.com/taskengine/taskengine/server/proto/taskengine/v1/taskenginev1connect"
	"github.com/taskengine/taskengine/task"
)

// role is the environment variable that makes the test binary one of the programs that
// the tests run.
const role = "ROLE_IN_TESTS"

// versionInTests is the environment variable that makes the program one of another version.
const versionInTests = "VERSION_IN_TESTS"

func TestMain(m *testing.M) {
	switch os.Getenv(role) {
	case "taskengine":
		build := server.ReadBuild()
		build.Version = cmp.Or(os.Getenv(versionInTests), build.Version)
		os.Exit(commandline.MainAs(context.Background(), build, os.Args[1:]))
	case "plugin":
		servePlugin()
	case "pages":
		os.Exit(servePages())
	default:
		flag.Parse()
		_ = flag.Set("test.parallel", "6") // most of these tests wait for other processes
		goleak.VerifyTestMain(m, goleak.Cleanup(closeServer))
	}
}

// limit is how long a program may take: far more than it does.
const limit = 3 * time.Minute

// askEvery is between two questions, each of which starts a program or connects to a database. That takes about ten milliseconds
// of processor time.
const askEvery = 50 * time.Millisecond

// result is the outcome of a program.
type result struct {
	code           int
	stdout, stderr string
}

// program returns a command that runs taskengine with the given arguments. Its
// environment is empty but for env.
func program(ctx context.Context, t testing.TB, env []string, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(ctx, self, args...)
	cmd.Env = append([]string{role + "=taskengine", "GORACE=atexit_sleep_ms=0"}, env...)
	cmd.Dir = t.TempDir()
	return cmd
}

// withPath is an environment in which programs are found.
func withPath() []string { return []string{"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME")} }

// cli runs taskengine to its end.
func cli(t testing.TB, env []string, stdin string, args ...string) result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	cmd := program(ctx, t, env, args...)
	cmd.Stdin = strings.NewReader(stdin)
	return ended(t, cmd)
}

// ended runs a program to its end.
func ended(t testing.TB, cmd *exec.Cmd) result {
	t.Helper()
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return result{cmd.ProcessState.ExitCode(), out.String(), errs.String()}
}

// running is a node in a process of its own.
type running struct {
	cmd        *exec.Cmd
	api, admin string
	stderr     io.Closer // the reading end of the node's log
	log        *lines
	ready      chan struct{} // closed when the node says that it is ready; then api and admin are known
	ended      chan struct{} // closed when the process has ended
}

// lines are the lines of a log.
type lines struct {
	mu  sync.Mutex
	all []string // guarded by mu
}

func (l *lines) add(s string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, s)
}

// after returns the lines behind the first n.
func (l *lines) after(n int) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all[n:len(l.all):len(l.all)]
}

// await waits until a text is in the log so many times, and reports whether that is so within limit.
func (l *lines) await(text string, times int) bool {
	read, found := 0, 0
	for begin := time.Now(); time.Since(begin) < limit; time.Sleep(2 * time.Millisecond) {
		for _, line := range l.after(read) {
			read++
			found += strings.Count(line, text)
		}
		if found >= times {
			return true
		}
	}
	return false
}

// String returns the log.
func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.all, "\n")
}

// start runs a node and returns when it is ready.
func start(t testing.TB, env []string, args ...string) *running {
	t.Helper()
	return startAt(t, "127.0.0.1:0", env, args...)
}

// startAt runs a node with its API at an address, and returns when it is ready.
func startAt(t testing.TB, api string, env []string, args ...string) *running {
	t.Helper()
	n := launch(t, api, env, args...)
	n.awaitReady(t)
	return n
}

// launch runs a node with its API at an address.
func launch(t testing.TB, api string, env []string, args ...string) *running {
	t.Helper()
	return launchBy(t, "", api, env, args...)
}

// launchBy is launch by a script that runs the program with its arguments; "" is the program.
func launchBy(t testing.TB, script, api string, env []string, args ...string) *running {
	t.Helper()
	args = append(args, "--set", "api.listen="+api, "--set", "admin.listen=127.0.0.1:0", "--set", "node.log.format=json")
	n := &running{cmd: program(context.Background(), t, env, args...), log: new(lines), ready: make(chan struct{}), ended: make(chan struct{})}
	if script != "" {
		n.cmd.Path, n.cmd.Args[0] = script, script
	}
	stderr, err := n.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := n.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	n.stderr = stderr
	go n.read(stderr)
	t.Cleanup(func() {
		n.cmd.Process.Kill()
		<-n.ended
		if t.Failed() {
			t.Logf("the node's log:\n%s", n.log)
		}
	})
	return n
}

func (n *running) awaitReady(t testing.TB) {
	t.Helper()
	select {
	case <-n.ready:
	case <-n.ended:
		t.Fatalf("the node ended with %v:\n%s", n.cmd.ProcessState, n.log)
	case <-time.After(limit):
		t.Fatalf("the node is not ready:\n%s", n.log)
	}
}

// read reads the node's log until the process ends.
func (n *running) read(stderr io.Reader) {
	defer close(n.ended)
	s := bufio.NewScanner(stderr)
	for s.Scan() {
		n.log.add(s.Text())
		var entry struct{ Msg, API, Admin string }
		if json.Unmarshal(s.Bytes(), &entry) == nil && entry.Msg == "ready" {
			n.api, n.admin = entry.API, entry.Admin
			close(n.ready)
		}
	}
	n.cmd.Wait()
}

// says waits until the node's log has a text.
func (n *running) says(t *testing.T, text string) {
	t.Helper()
	n.saysTimes(t, text, 1)
}

// saysTimes waits until the node's log has a text so many times.
func (n *running) saysTimes(t *testing.T, text string, times int) {
	t.Helper()
	if !n.log.await(text, times) {
		t.Fatalf("the node does not say %q %d times", text, times)
	}
}

// readiness returns how the node answers whether it is ready.
func (n *running) readiness(t *testing.T) (code int, body string) {
	t.Helper()
	return n.admins(t, "/readyz?verbose")
}

// admins returns the answer of the admin listener of the node.
func (n *running) admins(t *testing.T, path string) (code int, body string) {
	t.Helper()
	res, err := http.Get("http://" + n.admin + path)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(text)
}

// signal sends a signal to the node.
func (n *running) signal(t *testing.T, s syscall.Signal) {
	t.Helper()
	send := n.cmd.Process.Signal
	if s == syscall.SIGSTOP {
		send = func(os.Signal) error { return freeze.Stop(n.cmd.Process.Pid) }
	}
	if err := send(s); err != nil {
		t.Fatal(err)
	}
}

// exit waits for the node's end and returns its exit code.
func (n *running) exit(t *testing.T) int {
	t.Helper()
	select {
	case <-n.ended:
		return n.cmd.ProcessState.ExitCode()
	case <-time.After(limit):
		t.Fatalf("the node does not end:\n%s", n.log)
		return 0
	}
}

// cli runs a tool against the node.
func (n *running) cli(t *testing.T, args ...string) result {
	t.Helper()
	return cli(t, []string{"TASKENGINE_ADDRESS=" + n.api}, "", args...)
}

// ok runs a tool against the node that must succeed, and returns its output.
func (n *running) ok(t *testing.T, args ...string) string {
	t.Helper()
	r := n.cli(t, args...)
	if r.code != 0 {
		t.Fatalf("%v ended with %d: %s", args, r.code, r.stderr)
	}
	return strings.TrimSpace(r.stdout)
}

// object is a line of -o json.
type object map[string]any

// objects runs a tool against the node and returns the lines that it wrote.
func (n *running) objects(t *testing.T, args ...string) []object {
	t.Helper()
	return parse(t, n.ok(t, append(args, "-o", "json")...))
}

func parse(t *testing.T, text string) []object {
	t.Helper()
	return decode[object](t, text)
}

// decode reads lines of JSON.
func decode[T any](t *testing.T, text string) []T {
	t.Helper()
	var all []T
	for line := range strings.Lines(text) {
		var one T
		if err := json.Unmarshal([]byte(line), &one); err != nil {
			t.Fatalf("%q is no JSON: %v", line, err)
		}
		all = append(all, one)
	}
	return all
}

// until waits for a task to be in a state. It asks the API: a command for each question would take most of the processor.
func (n *running) until(t *testing.T, id, state string) object {
	t.Helper()
	web := &http.Client{Transport: &http.Transport{}}
	defer web.CloseIdleConnections()
	client := taskenginev1connect.NewTaskServiceClient(web, "http://"+n.api)
	pause := 2 * time.Millisecond // which grows: each question takes time of the node and of its database
	for begin := time.Now(); time.Since(begin) < limit; time.Sleep(pause) {
		pause = min(pause*3/2, 50*time.Millisecond)
		res, err := client.Get(t.Context(), &taskenginev1.GetRequest{Id: id})
		if err != nil || res.GetTask().GetState() != state {
			continue // the command says why, if that does not change
		}
		if o := n.objects(t, "task", "get", id)[0]; o["state"] == state {
			return o
		}
	}
	t.Fatalf("task %s does not become %s: %s", id, state, n.ok(t, "task", "get", id))
	return nil
}

// write makes a file in a folder of its own and returns its path.
func write(t testing.TB, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// servePlugin is a handler program that knows the type shout. Environment variables say which others it knows.
func servePlugin() {
	handlers := handler.Handlers{"shout": handler.Func(func(_ context.Context, t *task.Task) ([]byte, error) {
		return bytes.ToUpper(t.Payload), nil
	})}
	if os.Getenv("COUNT") != "" {
		handlers["count"] = handler.Func(count)
	}
	if os.Getenv("BANK") != "" {
		handlers["refused"] = handler.Func(func(context.Context, *task.Task) ([]byte, error) {
			return nil, task.Permanent(errors.New("the bank answered 503"))
		})
		handlers["pending"] = handlers["refused"]
	}
	if seed := os.Getenv("TREES"); seed != "" {
		handlers["tree"] = handler.Func(treeHandler(seed, os.Getenv("FAULTS")))
	}
	if os.Getenv("FLOW") != "" {
		handlers["flow"] = flowHandler()
	}
	if open := gate(os.Getenv("TALK")); open != "" {
		handlers["talk"] = handler.Func(open.talk)
	}
	if open := gate(os.Getenv("SCAN")); open != "" {
		handlers["scan"] = handler.Func(open.scan)
	}
	if notes := os.Getenv("LOAD"); notes != "" {
		load, err := loadHandler(notes)
		if err != nil {
			panic(err)
		}
		handlers["load"] = load
		for _, typ := range []string{"mail", "order"} {
			handlers[typ] = handlers["shout"]
		}
	}
	if stamps := stamper(os.Getenv("STAMPS")); stamps != "" {
		handlers["ping"], handlers["bulk"] = handler.Func(stamps.stamp), handler.Func(stamps.stamp)
	}
	if journal := os.Getenv("JOURNAL"); journal != "" {
		for _, typ := range []string{"least", "later", "most"} {
			handlers[typ] = handler.Func(func(ctx context.Context, t *task.Task) ([]byte, error) {
				if err := note(journal, t); err != nil {
					return nil, err
				}
				return nil, handler.Spawn(ctx, childOf(t))
			})
		}
		handlers["parent"] = handler.Func(func(ctx context.Context, t *task.Task) ([]byte, error) {
			if err := handler.Spawn(ctx, handler.Child{Type: "shout", Payload: []byte("child"), Key: string(t.Payload)}); err != nil {
				return nil, err
			}
			if err := note(journal, t); err != nil || t.Attempt > 1 {
				return []byte("spawned"), err
			}
			return nil, errors.New("the first attempt fails")
		})
		handlers["teller"] = handler.Func(tell)
		handlers["leaver"] = handler.Func(func(ctx context.Context, t *task.Task) ([]byte, error) {
			child := childOf(t)
			child.OrderingKey = t.ID.String()
			return nil, errors.Join(note(journal, t), handler.Spawn(ctx, child))
		})
		handlers["late"] = handler.Func(func(ctx context.Context, t *task.Task) ([]byte, error) {
			if err := note(journal, t); err != nil {
				return nil, err
			}
			<-ctx.Done()
			return nil, ctx.Err()
		})
		handlers["held"] = handler.Func(func(ctx context.Context, t *task.Task) ([]byte, error) {
			if err := note(journal, t); err != nil {
				return nil, err
			}
			for {
				if _, err := os.Stat(string(t.Payload)); err == nil {
					return []byte("held"), handler.Spawn(ctx, childOf(t))
				}
				time.Sleep(10 * time.Millisecond)
			}
		})
	}
	if url := os.Getenv("LEDGER"); url != "" {
		handlers["step"] = handler.Func(ledger(url).handle)
	}
	if journal := os.Getenv("WITNESS"); journal != "" {
		w, err := newWitness(journal)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		handlers["pay"], handlers["mail"] = handler.Func(w.handle), handler.Func(w.handle)
	}
	handler.Serve(handlers)
}

// count adds 1 to the number in a document.
func count(ctx context.Context, _ *task.Task) ([]byte, error) {
	d, err := task.ReadDocument(ctx, "count/a")
	if err != nil {
		return nil, err
	}
	n, _ := strconv.Atoi(string(d.Data))
	return nil, task.Again(time.Time{}, task.WithDocuments(d.Write(strconv.AppendInt(nil, int64(n+1), 10))))
}

// tell sends the signal of its payload, and adds a child of the type in it, if it has these.
func tell(_ context.Context, t *task.Task) ([]byte, error) {
	var in struct {
		Signal *task.SignalRequest
		Child  string
		After  []task.ID
	}
	if err := json.Unmarshal(t.Payload, &in); err != nil {
		return nil, task.Permanent(err)
	}
	var options []task.AgainOption
	if in.Signal != nil {
		options = append(options, task.WithSignals(*in.Signal))
	}
	if in.Child != "" {
		options = append(options, task.WithChildren("c", task.Request{Type: in.Child}))
	}
	if in.After != nil {
		options = append(options, task.WithTasks(task.Request{Type: "shout", After: in.After}))
	}
	return []byte("sent"), task.Again(time.Time{}, options...)
}

// childOf is a task that t adds. It has no key, so only the commit of its parent's end keeps it from being doubled.
func childOf(t *task.Task) handler.Child {
	return handler.Child{Type: "child", Headers: map[string]string{"of": t.ID.String()}}
}

// note adds a line for a task that runs to a file: a write of that size either happens or
// does not.
func note(journal string, t *task.Task) error {
	f, err := os.OpenFile(journal, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(f, "%s %s\n", t.Type, t.ID)
	time.Sleep(time.Duration(t.ID[15]) * 100 * time.Microsecond) // so that many run at a time
	return errors.Join(err, f.Close())
}

// bound takes root's licence to write everywhere from a program that was not started
// yet, where it has it.
func bound(ctx context.Context, cmd *exec.Cmd) *exec.Cmd {
	if os.Getuid() != 0 {
		return cmd
	}
	args := append([]string{"--bounding-set", "-dac_override,-dac_read_search"}, cmd.Args...)
	limited := exec.CommandContext(ctx, "setpriv", args...)
	limited.Env, limited.Dir = cmd.Env, cmd.Dir
	return limited
}

// content returns the text of a file, and none if there is no such file.
func content(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return string(text)
}
