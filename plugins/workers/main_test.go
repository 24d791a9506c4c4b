package workers

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
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
	"google.golang.org/grpc"

	"github.com/taskengine/taskengine/internal/freeze"
	"github.com/taskengine/taskengine/internal/wiretest"
	"github.com/taskengine/taskengine/plugins/handler"
	"github.com/taskengine/taskengine/task"
)

// actAs is the environment variable that makes the test binary a worker.
const actAs = "WORKERS_TEST_ACT_AS"

// slotsVariable is the environment variable with the slots of such a worker.
const slotsVariable = "WORKERS_TEST_SLOTS"

func TestMain(m *testing.M) {
	if os.Getenv(actAs) != "" {
		slots, _ := strconv.Atoi(cmp.Or(os.Getenv(slotsVariable), "8"))
		handler.Program{Handlers: testHandlers(), Slots: slots, Version: "v7"}.Serve()
		return
	}
	goleak.VerifyTestMain(m)
}

// testHandlers are the handlers of the workers in tests. The payload of most is the path of a folder, for files with
// which test and handler tell each other how far they are.
func testHandlers() handler.Handlers {
	return handler.Handlers{
		"upper": handler.Func(func(_ context.Context, t *task.Task) ([]byte, error) { return bytes.ToUpper(t.Payload), nil }),
		"until": handler.Func(func(ctx context.Context, t *task.Task) ([]byte, error) {
			dir := string(t.Payload)
			if err := appendTo(filepath.Join(dir, "begun"), "x"); err != nil {
				return nil, err
			}
			err := awaitFile(ctx, filepath.Join(dir, "go"))
			return []byte("done"), errors.Join(err, appendTo(filepath.Join(dir, "ended"), fmt.Sprintf("%v\n", context.Cause(ctx))))
		}),
		"stubborn": handler.Func(func(_ context.Context, t *task.Task) ([]byte, error) {
			dir := string(t.Payload)
			return nil, errors.Join(appendTo(filepath.Join(dir, "begun"), "x"), awaitFile(context.Background(), filepath.Join(dir, "go")))
		}),
		"keep": handler.Func(func(ctx context.Context, t *task.Task) ([]byte, error) {
			dir := string(t.Payload)
			if err := errors.Join(appendTo(filepath.Join(dir, "begun"), "x"), awaitFile(ctx, filepath.Join(dir, "save"))); err != nil {
				return nil, err
			}
			task.Logger(ctx).Warn("half way", "page", 7)
			if err := appendTo(filepath.Join(dir, "saving"), "x"); err != nil {
				return nil, err
			}
			if err := task.SaveCheckpoint(ctx, []byte("page 7")); err != nil {
				return nil, err
			}
			err := appendTo(filepath.Join(dir, "saved"), "x")
			return nil, errors.Join(err, awaitFile(ctx, filepath.Join(dir, "go")))
		}),
		"late": handler.Func(func(ctx context.Context, t *task.Task) ([]byte, error) {
			dir := string(t.Payload)
			if err := errors.Join(appendTo(filepath.Join(dir, "begun"), "x"), awaitFile(context.Background(), filepath.Join(dir, "go"))); err != nil {
				return nil, err
			}
			err := task.SaveCheckpoint(ctx, []byte("page 7"))
			return nil, appendTo(filepath.Join(dir, "saved"), fmt.Sprintf("%v\n", err))
		}),
		"big":  handler.Func(func(context.Context, *task.Task) ([]byte, error) { return make([]byte, 2000), nil }),
		"noop": handler.Func(func(context.Context, *task.Task) ([]byte, error) { return nil, nil }),
	}
}

// types are the types of testHandlers.
var types = []string{"upper", "until", "stubborn", "keep", "late", "big", "noop"}

func appendTo(path, text string) error {
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

func awaitFile(ctx context.Context, path string) error {
	for {
		if _, err := os.Stat(path); err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// node is a server with pools of workers.
type node struct {
	*Pool
	address string
	kill    func() // ends all connections, and takes no more
}

// serve serves pools with these configurations, and returns the first.
func serve(tb testing.TB, configs ...Config) *node {
	tb.Helper()
	return serveAt(tb, "127.0.0.1:0", nil, configs...)
}

// serveAt serves pools at an address.
func serveAt(tb testing.TB, address string, earlier Earlier, configs ...Config) *node {
	tb.Helper()
	var pools []*Pool
	for _, c := range configs {
		c.Name = cmp.Or(c.Name, "mail")
		if c.Types == nil {
			c.Types = types
		}
		if _, bench := tb.(*testing.B); !bench {
			c.Logger = slog.New(slog.NewTextHandler(tb.Output(), &slog.HandlerOptions{Level: slog.LevelDebug}))
		}
		p, err := Open(c)
		if err != nil {
			tb.Fatal(err)
		}
		pools = append(pools, p)
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		tb.Fatal(err)
	}
	server := grpc.NewServer(grpc.MaxRecvMsgSize(pools[0].MaxFrame()), grpc.WaitForHandlers(true))
	NewService(nil, nil, earlier, pools...).Register(server)
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(l) })
	tb.Cleanup(func() {
		for _, p := range pools {
			ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
			_ = p.Close(ctx) // an error says that tasks were still running
			cancel()
		}
		server.Stop()
		serving.Wait()
	})
	return &node{Pool: pools[0], address: l.Addr().String(), kill: server.Stop}
}

// process is a worker in a process of its own.
type process struct {
	cmd   *exec.Cmd
	ended chan struct{} // closed when it has ended
}

// executable returns the path of the test binary.
func executable(tb testing.TB) string {
	tb.Helper()
	exe, err := os.Executable()
	if err != nil {
		tb.Fatal(err)
	}
	return exe
}

// connect starts a worker of the nodes at an address.
func connect(tb testing.TB, address string, env ...string) *process {
	tb.Helper()
	cmd := exec.Command(executable(tb))
	cmd.Env = append(env, actAs+"=worker", "TASKENGINE_ADDRESS="+address, "GOCOVERDIR="+os.TempDir(), "GORACE=atexit_sleep_ms=0")
	cmd.Stderr = tb.Output()
	p := &process{cmd: cmd, ended: make(chan struct{})}
	if err := cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	go func() { _ = cmd.Wait(); close(p.ended) }()
	tb.Cleanup(func() {
		_ = cmd.Process.Kill() // an error says that it has ended
		<-p.ended
	})
	return p
}

func (p *process) signal(tb testing.TB, s syscall.Signal) {
	tb.Helper()
	send := p.cmd.Process.Signal
	if s == syscall.SIGSTOP {
		send = func(os.Signal) error { return freeze.Stop(p.cmd.Process.Pid) }
	}
	if err := send(s); err != nil {
		tb.Fatal(err)
	}
}

// exit waits for the end of the process and returns its exit code.
func (p *process) exit(tb testing.TB) int {
	tb.Helper()
	select {
	case <-p.ended:
		return p.cmd.ProcessState.ExitCode()
	case <-time.After(long):
		tb.Fatal("the worker does not end")
		return 0
	}
}

// join runs a worker in this process until the test ends or the returned function is called, which waits for its end.
func join(tb testing.TB, c handler.Connection, addresses ...string) (leave func()) {
	tb.Helper()
	c.Addresses = addresses
	c.Log = slog.New(slog.DiscardHandler)
	if _, bench := tb.(*testing.B); !bench {
		c.Log = slog.New(slog.NewTextHandler(tb.Output(), nil))
	}
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	all.Go(func() {
		if err := (handler.Program{Handlers: testHandlers(), Slots: 8}).Work(ctx, c); err != nil {
			tb.Error(err)
		}
	})
	leave = sync.OnceFunc(func() { cancel(); all.Wait() })
	tb.Cleanup(leave)
	return leave
}

// network returns a network between workers and a node, and the address of the node by way of it.
func network(tb testing.TB, n *node) (*wiretest.Wire, string) {
	tb.Helper()
	w := wiretest.New(tb, "tcp://"+n.address)
	return w, strings.TrimPrefix(w.URL(), "tcp://")
}

// long is how long a test waits for what happens at once, on a machine that is busy.
const long = time.Minute

func eventually(tb testing.TB, what string, ok func() bool) {
	tb.Helper()
	for end := time.Now().Add(long); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			tb.Fatalf("it did not happen within %v: %s", long, what)
		}
	}
}

// up waits until so many workers take tasks and have given credits.
func (n *node) up(tb testing.TB, workers int) {
	tb.Helper()
	eventually(tb, fmt.Sprintf("%d workers are connected", workers), func() bool {
		n.mu.Lock()
		defer n.mu.Unlock()
		up := 0
		for _, s := range n.dispatch.Sessions() {
			if s.Serves() && s.Free()+s.Running() > 0 {
				up++
			}
		}
		return up == workers
	})
}

// ran is what came of a task.
type ran struct {
	value []byte
	err   error
}

// run runs a task in the background.
func (n *node) run(ctx context.Context, t *task.Task) <-chan ran {
	out := make(chan ran, 1)
	go func() {
		value, err := n.Handle(ctx, t)
		out <- ran{value, err}
	}()
	return out
}

// begin runs a task with a folder, and returns when its handler has begun.
func (n *node) begin(tb testing.TB, ctx context.Context, typ string) (folder, <-chan ran) {
	tb.Helper()
	dir := folder(tb.TempDir())
	tb.Cleanup(func() { dir.put(tb, "go") }) // also if the test fails: the worker waits for the handler
	out := n.run(ctx, newTask(typ, string(dir)))
	dir.await(tb, "begun")
	return dir, out
}

// after waits for what came of a task.
func after(tb testing.TB, out <-chan ran) ran {
	tb.Helper()
	select {
	case r := <-out:
		return r
	case <-time.After(long):
		tb.Fatal("the task does not end")
		return ran{}
	}
}

// folder is where test and handler tell each other how far they are.
type folder string

func (f folder) await(tb testing.TB, name string) {
	tb.Helper()
	eventually(tb, name, func() bool { return f.has(name) != "" })
}

// has returns the content of a file; "" if it does not exist.
func (f folder) has(name string) string {
	text, _ := os.ReadFile(filepath.Join(string(f), name))
	return string(text)
}

func (f folder) put(tb testing.TB, name string) {
	tb.Helper()
	if err := appendTo(filepath.Join(string(f), name), "x"); err != nil {
		tb.Fatal(err)
	}
}

func newTask(typ, payload string) *task.Task {
	return &task.Task{ID: task.ID{1, 2, 3}, Version: 4, State: task.Processing, Type: typ, Attempt: 1, Payload: []byte(payload)}
}
