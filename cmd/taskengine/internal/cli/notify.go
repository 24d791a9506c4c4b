package cli

import (
	"log/slog"
	"net"
)

// notifier returns a function that sends the state of the node to the service manager by the
// protocol of systemd: a datagram to the socket that NOTIFY_SOCKET names. Without that variable
// the function does nothing.
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
			log.Warn("the service manager could not be notified", "state", state, "error", err)
		}
	}
}
