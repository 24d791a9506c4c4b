package plugins

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/taskengine/taskengine/plugins/handler"
	"github.com/taskengine/taskengine/task"
)

// The test binary is also each handler program: the variable actAs names which.
const actAs = "PLUGINS_TEST_ACT_AS"

func TestMain(m *testing.M) {
	if part := os.Getenv(actAs); part != "" {
		parts[part]()
		return
	}
	goleak.VerifyTestMain(m)
}

// parts are the programs that the test binary can run as.
var parts = map[string]func(){
	"handlers":   func() { handler.Program{Handlers: testHandlers(), Version: "v7"}.Serve() },
	"exits":      func() { fmt.Fprintln(os.Stderr, "cannot find my config"); os.Exit(3) },
	"garbage":    func() { fmt.Println("Hello, I am no handshake"); time.Sleep(time.Hour) },
	"binary":     func() { os.Stdout.Write(bytes.Repeat([]byte{0, 0xff, '|'}, 1<<20)); time.Sleep(time.Hour) },
	"version":    func() { fmt.Println("1|99|unix|/nowhere|grpc|"); time.Sleep(time.Hour) },
	"tcp":        func() { fmt.Println("1|1|tcp|127.0.0.1:1|grpc|"); time.Sleep(time.Hour) },
	"nowhere":    func() { fmt.Println("1|1|unix|/nowhere/at/all|grpc|"); time.Sleep(time.Hour) },
	"mute":       func() { time.Sleep(time.Hour) },
	"no types":   func() { handler.Serve(nil) },
	"rogue":      rogue,
	"a host":     hostUntilKilled,
	"grandchild": func() { time.Sleep(time.Hour) },
}

// self returns the configuration that runs the test binary as the named program.
func self(tb testing.TB, part string, env ...string) Config {
	tb.Helper()
	exe, err := os.Executable()
	if err != nil {
		tb.Fatal(err)
	}
	return Config{
		Name: "test", Command: []string{exe}, Env: append(env, actAs+"="+part, "GOCOVERDIR="+os.TempDir()),
		StartTimeout: patience, KillAfter: time.Second, Logger: testLogger(tb),
	}
}

func testHandlers() handler.Handlers {
	var running, most atomic.Int32
	return handler.Handlers{
		"noop":   handler.Func(func(context.Context, *task.Task) ([]byte, error) { return nil, nil }),
		"parent": handler.Func(addChildren),
		"upper":  handler.Func(func(_ context.Context, t *task.Task) ([]byte, error) { return bytes.ToUpper(t.Payload), nil }),
		"mirror": handler.Func(func(ctx context.Context, t *task.Task) ([]byte, error) {
			deadline, _ := ctx.Deadline()
			return json.Marshal(mirrored{Task: t, Deadline: deadline})
		}),
		"pid": handler.Func(func(context.Context, *task.Task) ([]byte, error) {
			return []byte(strconv.Itoa(os.Getpid())), nil
		}),
		"uid": handler.Func(func(context.Context, *task.Task) ([]byte, error) {
			return []byte(strconv.Itoa(os.Getuid())), nil
		}),
		"hold": handler.Func(func(_ context.Context, t *task.Task) ([]byte, error) {
			n, err := strconv.Atoi(string(t.Payload))
			held := make([]byte, n)
			for i := 0; i < n; i += 4096 {
				held[i] = 1
			}
			return []byte(strconv.Itoa(len(held))), err
		}),
		"report": handler.Func(func(ctx context.Context, _ *task.Task) ([]byte, error) {
			task.ReportProgress(ctx, 1, 3, "pages")
			task.ReportProgress(ctx, 2, 3, "pages")
			task.Logger(ctx).WithGroup("of").With("total", 3).Debug("between")
			task.Logger(ctx).Warn("half way", "page", 2, slog.Group("of", "total", 3))
			return nil, errors.Join(errors.New("kept"), task.SaveCheckpoint(ctx, []byte("page 2")))
		}),
		"paid":       handler.Func(waitUntilPaid),
		"checkpoint": handler.Func(func(_ context.Context, t *task.Task) ([]byte, error) { return t.Checkpoint(), nil }),
		"say": handler.Func(func(ctx context.Context, t *task.Task) ([]byte, error) {
			fmt.Println("to stdout")
			fmt.Fprintln(os.Stderr, "to stderr")
			return nil, waitForFile(ctx, string(t.Payload))
		}),
		"env": handler.Func(func(context.Context, *task.Task) ([]byte, error) {
			return []byte(strings.Join(os.Environ(), "\n")), nil
		}),
		"error": handler.Func(func(_ context.Context, t *task.Task) ([]byte, error) { return testError(string(t.Payload)) }),
		"panic": handler.Func(func(context.Context, *task.Task) ([]byte, error) { panic("as asked") }),
		"die": handler.Func(func(context.Context, *task.Task) ([]byte, error) {
			fmt.Fprintln(os.Stderr, "farewell")
			os.Exit(9)
			return nil, nil
		}),
		"fork": handler.Func(func(_ context.Context, t *task.Task) ([]byte, error) { return nil, fork(string(t.Payload)) }),
		"stop": handler.Func(func(ctx context.Context, _ *task.Task) ([]byte, error) {
			if err := syscall.Kill(os.Getpid(), syscall.SIGSTOP); err != nil {
				return nil, err
			}
			<-ctx.Done() // other threads may run a moment longer
			return nil, ctx.Err()
		}),
		"wait": handler.Func(func(ctx context.Context, _ *task.Task) ([]byte, error) {
			<-ctx.Done()
			return nil, fmt.Errorf("stopped: %w", context.Cause(ctx))
		}),
		"until": handler.Func(func(ctx context.Context, t *task.Task) ([]byte, error) { // a file exists
			return nil, waitForFile(ctx, string(t.Payload))
		}),
		"hang": handler.Func(hang),
		"most": handler.Func(func(ctx context.Context, t *task.Task) ([]byte, error) { // at once so far, and as many as the payload says
			n := running.Add(1)
			defer running.Add(-1)
			for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
			}
			time.Sleep(time.Millisecond)
			for wanted, _ := strconv.Atoi(string(t.Payload)); most.Load() < int32(wanted) && ctx.Err() == nil; {
				time.Sleep(time.Millisecond)
			}
			return []byte(strconv.Itoa(int(most.Load()))), nil
		}),
		"shout": handler.Func(shout),
		"sum": handler.JSON(func(_ context.Context, _ *task.Task, in []int) (out struct{ Sum int }, err error) {
			for _, n := range in {
				out.Sum += n
			}
			return out, nil
		}),
		"big": handler.Func(func(_ context.Context, t *task.Task) ([]byte, error) {
			n, err := strconv.Atoi(string(t.Payload))
			return make([]byte, n), err
		}),
	}
}

// mirrored is a task as its handler saw it.
type mirrored struct {
	Task     *task.Task
	Deadline time.Time
}

func testError(kind string) ([]byte, error) {
	err := errors.New("no money")
	switch kind {
	case "permanent":
		return nil, task.Permanent(err)
	case "retry in":
		return nil, task.RetryIn(90*time.Second, err)
	case "retry after":
		return nil, task.RetryAfter(90*time.Second, err)
	case "in doubt":
		return nil, task.InDoubt(err)
	case "class":
		return nil, task.Permanent(task.WithClass("funds", err))
	case "snooze":
		return nil, task.Snooze(time.Hour)
	case "again":
		return []byte("so far"), task.Again(time.Unix(2e9, 0))
	case "again with":
		return []byte("so far"), task.Again(time.Unix(2e9, 0), task.WithPayload([]byte("p\xff")), task.WithCheckpoint(nil))
	case "ended":
		return nil, task.Ended()
	case "bad text":
		return nil, errors.New("no \xff money")
	}
	return nil, err
}

// waitUntilPaid ends its first attempt by a wait. An attempt that was woken says by what, when the file of its payload exists.
// addChildren adds children as the payload says, waits for them, and returns how they have ended.
func addChildren(_ context.Context, t *task.Task) ([]byte, error) {
	if s := t.Children.Set("c"); s != nil {
		return fmt.Appendf(nil, "%v: %d of %d done, %d failed, %d cancelled, the first has ended: %v", t.Woken().By, s.Done, s.Added, s.Failed, s.Cancelled, s.HasEnded(0)), nil
	}
	var in struct {
		Children []task.Request
		Name     string
	}
	if err := json.Unmarshal(t.Payload, &in); err != nil {
		return nil, err
	}
	return nil, task.WaitForChildren([]task.ChildrenWait{{Name: "c"}}, time.Time{}, task.WithChildren(in.Name, in.Children...))
}

func waitUntilPaid(ctx context.Context, t *task.Task) ([]byte, error) {
	w := t.Woken()
	if w.By == task.NotWoken {
		if err := task.SaveCheckpoint(ctx, []byte("asked")); err != nil {
			return nil, err
		}
		return []byte("asked"), task.WaitFor([]string{"paid", "void"}, time.Now().Add(time.Hour), task.WithCheckpoint([]byte("asked")))
	}
	if err := waitForFile(ctx, string(t.Payload)); err != nil {
		return nil, err
	}
	return fmt.Appendf(nil, "%v %v %s %s %s", w.By, w.Signal.ID, w.Signal.Name, w.Signal.Data, t.Checkpoint()), nil
}

func waitForFile(ctx context.Context, path string) error {
	for {
		if _, err := os.Stat(path); err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// hang starts a child that ignores SIGTERM and writes its pid to the file that the payload names. It does not return.
func hang(_ context.Context, t *task.Task) ([]byte, error) {
	child := exec.Command("/bin/sh", "-c", `trap "" TERM; echo $$ >"$0.new"; mv "$0.new" "$0"; while :; do sleep 1; done`, string(t.Payload))
	child.Stdout, child.Stderr = os.Stdout, os.Stderr
	if err := child.Run(); err != nil {
		return nil, err
	}
	select {}
}

// fork starts two processes, the second outside the process group. It writes the pids of this process and of the two to
// file, and whether this process has a control group of its own.
func fork(file string) error {
	child, runaway := exec.Command("/bin/sleep", "1000"), exec.Command("/bin/sleep", "1000")
	runaway.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	for _, c := range []*exec.Cmd{child, runaway} {
		if err := c.Start(); err != nil {
			return err
		}
		go func() { _ = c.Wait() }()
	}
	groups, _ := os.ReadFile("/proc/self/cgroup")
	text := fmt.Sprintln(os.Getpid(), child.Process.Pid, runaway.Process.Pid, strings.Contains(string(groups), "/taskengine-"))
	if err := os.WriteFile(file+".new", []byte(text), 0o600); err != nil {
		return err
	}
	return os.Rename(file+".new", file)
}

// shout writes much output that is hard to read: long lines, broken JSON and control characters.
func shout(context.Context, *task.Task) ([]byte, error) {
	real := os.NewFile(1, "stdout")
	fmt.Fprintln(real, strings.Repeat("x", 240<<10))
	fmt.Fprintln(os.Stderr, `{"@message": 7}`)
	fmt.Fprintln(os.Stderr, `{"@message": "well", "@level": "warn", "@timestamp": 3, "n": {"m": [1]}}`)
	os.Stderr.Write(bytes.Repeat([]byte{0, 1, 0xfe, '{', '"'}, 100<<10))
	os.Stderr.Write([]byte("\n\n\r\n{\n[]\nnull\n"))
	for range 5000 {
		fmt.Fprintln(real, "chatter")
	}
	return []byte("alive"), nil
}
