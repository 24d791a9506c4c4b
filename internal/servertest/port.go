//go:build unix

package servertest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// Ports are below the range that systems use for outgoing connections (32768 and up on Linux, 49152
// and up on macOS). So no outgoing connection takes the port of a server that is down for a moment,
// and a client that dials it then cannot connect to itself.
const firstPort, lastPort = 20000, 31999

// AtFreePort calls listen with free ports until no other process has taken the port first. No other test gets the port
// while this process lives: a server that takes seconds to listen there, or is restarted, must not find that of
// another test.
func AtFreePort(listen func(port int) error) (int, error) {
	var err error
	for range 100 {
		port := firstPort + rand.IntN(lastPort-firstPort+1)
		if err = reserve(port); err != nil {
			continue
		}
		var probe net.Listener
		if probe, err = net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port))); err != nil {
			continue
		}
		if err = probe.Close(); err != nil {
			return 0, err
		}
		if err = listen(port); err == nil || !PortTaken(err) {
			return port, err
		}
	}
	return 0, err
}

// reserve locks the file of a port. The lock is held until the process ends, and not by the processes that it starts.
func reserve(port int) error {
	folder := filepath.Join("/tmp", "taskengine-test-ports")
	if err := os.MkdirAll(folder, 0o777); err != nil {
		return err
	}
	_ = os.Chmod(folder, 0o777|os.ModeSticky) // for other users; the owner has done so
	file := filepath.Join(folder, strconv.Itoa(port))
	descriptor, err := syscall.Open(file, syscall.O_RDONLY|syscall.O_CREAT|syscall.O_CLOEXEC, 0o666)
	if err != nil {
		return fmt.Errorf("reserve port %d by %s: %w", port, file, err)
	}
	if err := syscall.Flock(descriptor, syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return errors.Join(fmt.Errorf("reserve port %d by %s: %w", port, file, err), syscall.Close(descriptor))
	}
	return nil
}

// PortTaken reports whether a program ended because another program listens on its port.
func PortTaken(err error) bool {
	var ended *EndedError
	return errors.As(err, &ended) && strings.Contains(strings.ToLower(ended.Said), "address already in use")
}
