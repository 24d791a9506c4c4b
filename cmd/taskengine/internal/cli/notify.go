package cli

import (
	"log/slog"
	"net"
)

// notifier returns what tells the service manager how the node stands, as systemd wants
// it: a datagram to the socket that NOTIFY_SOCKET names. Without one it does nothing.
func (a *app) notifier(log *slog.Logger) func(state string) {
	path := a.getenv("NOTIFY_SOCKET", "")
	if path == "" {
		return func(string) {}
	}
	return func(state string) {
		conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: path, Net: "unixgram"})
		if err == nil {
			_, err = conn.Write([]byte(state))
			conn.Close()
		}
		if err != nil {
			log.Warn("the service manager could not be told", "state", state, "error", err)
		}
	}
}
