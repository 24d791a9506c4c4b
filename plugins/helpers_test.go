package plugins

import (
	"cmp"
	"context"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/taskengine/taskengine/task"
)

// testLogger logs to the test, at the debug level.
func testLogger(tb testing.TB) *slog.Logger {
	if _, bench := tb.(*testing.B); bench {
		return nil
	}
	return slog.New(slog.NewTextHandler(tb.Output(), &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// patience is the limit of each wait for what a busy machine may do late.
const patience = 2 * time.Minute

// start starts a host and closes it with the test.
func start(tb testing.TB, c Config) *Host {
	tb.Helper()
	h, err := Start(context.Background(), c)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := h.Close(ctx); err != nil {
			tb.Error(err)
		}
	})
	return h
}

func newTask(typ, payload string) *task.Task {
	return &task.Task{ID: task.ID{1, 2, 3}, Version: 4, State: task.Processing, Type: typ, Attempt: 1, Payload: []byte(payload)}
}

// must returns the result of a task, which must succeed.
func must(tb testing.TB, h *Host, typ, payload string) string {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	result, err := h.Handle(ctx, newTask(typ, payload))
	if err != nil {
		tb.Fatalf("%s: %v", typ, err)
	}
	return string(result)
}

// result is the result of a call of Handle in the background.
type result struct {
	value []byte
	err   error
}

// handle runs a task in the background.
func handle(ctx context.Context, h *Host, t *task.Task) <-chan result {
	out := make(chan result, 1)
	go func() {
		value, err := h.Handle(ctx, t)
		out <- result{value, err}
	}()
	return out
}

// eventually waits for an effect of another process or goroutine.
func eventually(tb testing.TB, what string, ok func() bool) {
	tb.Helper()
	for end := time.Now().Add(patience); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			tb.Fatalf("it did not happen within %v: %s", patience, what)
		}
	}
}

// systemPython is the interpreter that the packages of Debian belong to, or the one that PYTHON names.
func systemPython(tb testing.TB) string {
	tb.Helper()
	exe := cmp.Or(os.Getenv("PYTHON"), "/usr/bin/python3")
	if out, err := exec.Command(exe, "-c", "import grpc").CombinedOutput(); err != nil {
		tb.Fatalf("%s cannot import grpc: apt-get install python3-grpcio, or name an interpreter that has grpcio in $PYTHON: %v\n%s", exe, err, out)
	}
	return exe
}

// python is the configuration of the Python test program.
func python(tb testing.TB) Config {
	tb.Helper()
	return Config{
		Name: "python", Command: []string{systemPython(tb), "sdk/python/tests/handlers.py"},
		Env: []string{"PATH", "PYTHONDONTWRITEBYTECODE=1"}, StartTimeout: patience, KillAfter: time.Second,
		Logger: testLogger(tb),
	}
}

// textLogger writes records without their time to w.
func textLogger(w io.Writer) *slog.Logger {
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}}))
}
