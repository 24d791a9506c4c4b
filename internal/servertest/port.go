//go:build unix

package servertest

import (
	"errors"
	"math/rand/v2"
	"net"
	"strconv"
	"strings"
)

// Ports are below the range that systems use for outgoing connections (32768 and up on Linux, 49152
// and up on macOS). So no outgoing connection takes the port of a server that is down for a moment,
// and a client that dials it then cannot connect to itself.
const firstPort, lastPort = 20000, 31999

// AtFreePort calls listen with free ports until no other process has taken the port first.
func AtFreePort(listen func(port int) error) (int, error) {
	var err error
	for range 100 {
		port := firstPort + rand.IntN(lastPort-firstPort+1)
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

// PortTaken reports whether a program ended because another program listens on its port.
func PortTaken(err error) bool {
	var ended *EndedError
	return errors.As(err, &ended) && strings.Contains(strings.ToLower(ended.Said), "address already in use")
}
