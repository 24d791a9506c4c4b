//go:build !race

package e2e

import (
	"io"
	"net"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// serviceManager listens as a service manager does, and returns the address and the next message.
func serviceManager(t *testing.T) (address string, next func() string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "notify")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return path, func() string {
		t.Helper()
		b := make([]byte, 1000)
		if err := conn.SetReadDeadline(time.Now().Add(limit)); err != nil {
			t.Fatal(err)
		}
		size, err := conn.Read(b)
		if err != nil {
			t.Fatal(err)
		}
		return string(b[:size])
	}
}

func TestTheServiceManagerIsNotifiedOfTheStateOfTheNode(t *testing.T) {
	t.Parallel()
	address, next := serviceManager(t)
	n := start(t, []string{"NOTIFY_SOCKET=" + address}, "run", "--set", "storage.driver=memory")
	want := func(text string) {
		t.Helper()
		if got := next(); got != text && !strings.HasPrefix(got, text+"\nMONOTONIC_USEC=") {
			t.Errorf("it got %q, want %q", got, text)
		}
	}
	want("READY=1")
	n.signal(t, syscall.SIGHUP)
	want("RELOADING=1")
	want("READY=1")
	n.signal(t, syscall.SIGTERM)
	n.exit(t)
	want("STOPPING=1")
}

func TestTheWatchdogOfTheServiceManagerGetsSignsOfLife(t *testing.T) {
	t.Parallel()
	address, next := serviceManager(t)
	n := start(t, []string{"NOTIFY_SOCKET=" + address, "WATCHDOG_USEC=20000"}, "run", "--set", "storage.driver=memory")
	for signs := 0; signs < 5; {
		if next() == "WATCHDOG=1" {
			signs++
		}
	}
	n.signal(t, syscall.SIGTERM)
	if code := n.exit(t); code != 0 {
		t.Errorf("the node ended with %d", code)
	}
}

func TestAWatchdogOfAnotherProcessGetsNothing(t *testing.T) {
	t.Parallel()
	address, next := serviceManager(t)
	n := start(t, []string{"NOTIFY_SOCKET=" + address, "WATCHDOG_USEC=1000", "WATCHDOG_PID=1"}, "run", "--set", "storage.driver=memory")
	n.signal(t, syscall.SIGTERM)
	n.exit(t)
	for _, want := range []string{"READY=1", "STOPPING=1"} {
		if got := next(); got != want {
			t.Errorf("it got %q, want %q", got, want)
		}
	}
}

func TestANodeAndAWorkerOutliveTheReadersOfTheirLogs(t *testing.T) {
	t.Parallel()
	n := start(t, nil, "run", "-c", write(t, "taskengine.yaml", `
node: {log: {level: debug}}
storage: {driver: memory}
handlers: {go: {remote: {}}}
types: {shout: {handler: go}}
`))
	w := startWorker(t, n.api)
	w.awaitConnected(t)
	for _, reader := range []io.Closer{n.stderr, w.stderr} {
		if err := reader.Close(); err != nil {
			t.Fatal(err)
		}
	}
	hear := func() {
		t.Helper()
		for range 3 {
			if got := n.objects(t, "task", "add", "shout", "--data", `"a"`, "--wait")[0]["result"]; got != "A" {
				t.Errorf("the result is %v", got)
			}
		}
	}
	hear()
	if r := n.cli(t, "worker", "drain", "go/1"); r.code != 0 { // the worker logs its end
		t.Errorf("the drain ended with %d: %s", r.code, r.stderr)
	}
	select {
	case <-w.ended:
	case <-time.After(limit):
		t.Fatal("the worker does not end")
	}
	if code := w.cmd.ProcessState.ExitCode(); code != 0 {
		t.Errorf("the worker ended with %v", w.cmd.ProcessState)
	}
	n.signal(t, syscall.SIGTERM)
	if code := n.exit(t); code != 0 {
		t.Errorf("the node ended with %v", n.cmd.ProcessState)
	}
}
