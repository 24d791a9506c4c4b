package zk

import (
	"bufio"
	"context"
	"io"
	"net"
	"strings"

	"github.com/taskengine/taskengine/coord/internal/reason"
)

// OldestServer is the oldest version of ZooKeeper that nodes use: the first that accepts connections with TLS.
const OldestServer = "3.5"

// Version returns the version of the server that says it first, such as 3.8.0; "" if none does within a few seconds, because its
// setting 4lw.commands.whitelist lacks srvr.
func (c *Coord) Version(ctx context.Context) string {
	version, _ := c.askVersion(ctx)
	return version
}

func (c *Coord) askVersion(ctx context.Context) (version, address string) {
	return reason.FirstVersion(ctx, c.store.options.Endpoints, c.store.versionOf)
}

// versionOf asks a server for its version, by a connection of its own: srvr is no request of a session.
func (s *store) versionOf(ctx context.Context, address string) string {
	var d net.Dialer
	raw, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		return ""
	}
	defer func() { _ = raw.Close() }()
	stop := context.AfterFunc(ctx, func() { _ = raw.Close() })
	defer stop()
	conn := raw
	if s.options.TLS != nil {
		if conn, err = handshake(raw, address, s.options.TLS, silence); err != nil {
			return ""
		}
	}
	if _, err := io.WriteString(conn, "srvr"); err != nil {
		return ""
	}
	line, _ := bufio.NewReader(conn).ReadString('\n') // of a server that refuses srvr it has no end
	return versionIn(line)
}

// versionIn returns the version in the first line of an answer, such as "Zookeeper version: 3.8.0-5a02a05eddb59aee6ac762f7ea82e92a68eb9c0f,
// built on 2022-02-25 08:49 UTC".
func versionIn(line string) string {
	rest, ok := strings.CutPrefix(line, "Zookeeper version: ")
	if !ok {
		return ""
	}
	version, _, _ := strings.Cut(rest, "-")
	version, _, _ = strings.Cut(version, ",")
	return strings.TrimSpace(version)
}
