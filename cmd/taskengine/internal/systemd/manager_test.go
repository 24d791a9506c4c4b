package systemd

import (
	"context"
	"log/slog"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// limit bounds each wait.
const limit = time.Minute

// listen returns a service manager that New finds by the environment, and the next message to it.
func listen(t *testing.T, path string, env map[string]string) (m *Manager, next func() string) {
	t.Helper()
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	const pid = 7
	m = New(func(name, otherwise string) string {
		if name == "NOTIFY_SOCKET" {
			return path
		}
		return env[name]
	}, pid, slog.New(slog.DiscardHandler))
	return m, func() string {
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

func TestTheStatesOfANodeAreDatagrams(t *testing.T) {
	m, next := listen(t, filepath.Join(t.TempDir(), "s"), nil)
	for _, c := range []struct {
		say  func()
		want string
	}{{m.Ready, "READY=1"}, {m.Reloading, "RELOADING=1\nMONOTONIC_USEC="}, {m.Stopping, "STOPPING=1"}} {
		if c.say(); !strings.HasPrefix(next(), c.want) {
			t.Errorf("the manager does not get %q", c.want)
		}
	}
}

func TestSignsOfLifeNeedANodeThatAnswers(t *testing.T) {
	m, next := listen(t, filepath.Join(t.TempDir(), "s"), map[string]string{"WATCHDOG_USEC": "2000", "WATCHDOG_PID": "7"})
	asked, answer := make(chan struct{}), make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		m.Watch(ctx, func() {
			select {
			case asked <- struct{}{}:
				<-answer
			case <-ctx.Done():
			}
		})
	}()
	for range 3 {
		<-asked
		m.Ready()
		if got := next(); got != "READY=1" {
			t.Errorf("before the node answers the manager gets %q", got)
		}
		answer <- struct{}{}
		if got := next(); got != "WATCHDOG=1" {
			t.Errorf("after the answer the manager gets %q", got)
		}
	}
	cancel()
	<-ended
}

func TestWithoutAManagerNothingIsSent(t *testing.T) {
	m := New(func(_, otherwise string) string { return otherwise }, 1, slog.New(slog.DiscardHandler))
	if m != nil {
		t.Fatalf("the manager is %+v", m)
	}
	m.Ready()
	m.Reloading()
	m.Stopping()
	m.Watch(t.Context(), func() { t.Error("the node is asked") })
	other, _ := listen(t, filepath.Join(t.TempDir(), "s"), map[string]string{"WATCHDOG_USEC": "1", "WATCHDOG_PID": "8"})
	other.Watch(t.Context(), func() { t.Error("the node is asked for the watchdog of another process") })
}
