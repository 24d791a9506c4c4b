package wiretest

import (
	"bufio"
	"encoding/hex"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// Mesh is the network among server processes of this machine. Each server is reached by the others by way of wires. A
// connection belongs to the process that has opened it, so two servers can be cut off from each other alone.
type Mesh struct {
	tb testing.TB

	mu    sync.Mutex
	wires map[int][]*Wire // guarded by mu: by server
}

// NewMesh returns a network without servers. It ends with the test.
func NewMesh(tb testing.TB) *Mesh { return &Mesh{tb: tb, wires: make(map[int][]*Wire)} }

// Reach returns the address, as host:port, at which the other servers reach an address of a server.
func (m *Mesh) Reach(server int, address string) string {
	m.tb.Helper()
	w := New(m.tb, "tcp://"+address)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.wires[server] = append(m.wires[server], w)
	return w.listener.Addr().String()
}

// Isolate has nothing arrive any more between one of the servers and all others. Connections stay open. pids are the
// processes of the servers.
func (m *Mesh) Isolate(server int, pids []int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for to, wires := range m.wires {
		for _, w := range wires {
			if to == server {
				w.Stall()
			} else {
				w.stallFrom(pids[server])
			}
		}
	}
}

// Heal ends all stalls. Data that was sent during a stall arrives, too.
func (m *Mesh) Heal() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, wires := range m.wires {
		for _, w := range wires {
			w.stallFrom(0)
			w.Resume()
		}
	}
}

// stallFrom has nothing arrive any more on connections that a process has opened, or will open. 0 is no process.
func (w *Wire) stallFrom(pid int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.isFrom = nil
	if pid != 0 {
		w.isFrom = func(from net.Addr) bool { return owns(pid, from) }
	}
	for near := range w.stalls {
		w.stalls[near] = w.isFrom != nil && w.isFrom(near.RemoteAddr())
	}
	w.changed.Broadcast()
}

// owns reports whether a process has the socket with a local address of this machine.
func owns(pid int, local net.Addr) bool {
	inode := inodeOf(local.(*net.TCPAddr).Port)
	if inode == "" {
		return false
	}
	open, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid)) // the pattern is none that is wrong
	for _, fd := range open {
		if what, err := os.Readlink(fd); err == nil && what == "socket:["+inode+"]" {
			return true
		}
	}
	return false
}

// inodeOf returns the number of the connected socket with a local port at the loopback address; "" if there is none.
func inodeOf(port int) string {
	for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		f, err := os.Open(table)
		if err != nil {
			continue
		}
		defer f.Close()
		for lines := bufio.NewScanner(f); lines.Scan(); {
			fields := strings.Fields(lines.Text())
			if len(fields) < 10 {
				continue
			}
			address, number, _ := strings.Cut(fields[1], ":")
			n, err := strconv.ParseUint(number, 16, 16)
			if err == nil && int(n) == port && isLoopback(address) && fields[9] != "0" {
				return fields[9]
			}
		}
	}
	return ""
}

// isLoopback reports whether an address of a table in /proc/net is 127.0.0.1, also as one of IPv6.
func isLoopback(address string) bool {
	raw, err := hex.DecodeString(address)
	return err == nil && len(raw) >= 4 && string(raw[len(raw)-4:]) == "\x01\x00\x00\x7f"
}
