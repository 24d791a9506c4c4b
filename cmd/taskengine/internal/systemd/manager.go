// Package systemd sends the state of a node to the service manager, by the protocol of sd_notify(3).
package systemd

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// sendTimeout is how long the service manager may take to accept a message.
const sendTimeout = time.Second

// Manager is the service manager of this process. A nil Manager is none: its methods do nothing. The methods may be
// called from any goroutine.
type Manager struct {
	socket   string
	watchdog time.Duration // within which it expects a sign of life; 0: it expects none
	log      *slog.Logger
}

// New returns the service manager that the environment names, or nil if it names none. pid is the number of this process.
func New(getenv func(name, otherwise string) string, pid int, log *slog.Logger) *Manager {
	socket := getenv("NOTIFY_SOCKET", "")
	if socket == "" {
		return nil
	}
	m := &Manager{socket: socket, log: log}
	if of := getenv("WATCHDOG_PID", ""); of == "" || of == strconv.Itoa(pid) {
		if n, err := strconv.ParseInt(getenv("WATCHDOG_USEC", ""), 10, 64); err == nil && n > 0 {
			m.watchdog = time.Duration(n) * time.Microsecond
		}
	}
	return m
}

// Ready says that the node is ready, or has reloaded its configuration.
func (m *Manager) Ready() { m.send("READY=1") }

// Stopping says that the node stops.
func (m *Manager) Stopping() { m.send("STOPPING=1") }

// Reloading says that the node reloads its configuration. Ready follows.
func (m *Manager) Reloading() {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		return // a Type=notify-reload unit needs the time
	}
	m.send(fmt.Sprintf("RELOADING=1\nMONOTONIC_USEC=%d", now.Nano()/int64(time.Microsecond)))
}

// Watch sends a sign of life twice in each period of the watchdog, after alive has returned, until ctx ends. It returns at
// once if the manager has no watchdog.
func (m *Manager) Watch(ctx context.Context, alive func()) {
	if m == nil || m.watchdog == 0 {
		return
	}
	for tick := time.Tick(m.watchdog / 2); ; {
		alive()
		m.send("WATCHDOG=1")
		select {
		case <-ctx.Done():
			return
		case <-tick:
		}
	}
}

// send sends a datagram.
func (m *Manager) send(state string) {
	if m == nil {
		return
	}
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: m.socket, Net: "unixgram"})
	if err == nil {
		_ = conn.SetDeadline(time.Now().Add(sendTimeout)) // it fails only on a closed connection
		_, err = conn.Write([]byte(state))
		conn.Close()
	}
	if err != nil {
		m.log.Warn("the service manager could not be notified", "state", state, "error", err)
	}
}
