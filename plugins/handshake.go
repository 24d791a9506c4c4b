//go:build linux || darwin

package plugins

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"

	"github.com/taskengine/taskengine/internal/supervise"
	"github.com/taskengine/taskengine/plugins/internal/wire"
)

// handshake starts the program and reads its handshake line. If it returns a process, the caller owns it, even if there
// is an error too. It returns nil if no process was started.
func (h *Host) handshake(ctx context.Context, cfg *Config) (*instance, net.Addr, error) {
	if ctx.Err() != nil {
		return nil, nil, context.Cause(ctx)
	}
	dir, err := socketDir()
	if err != nil {
		return nil, nil, err
	}
	p, err := h.startProgram(cfg, dir)
	if err != nil {
		removeAll(dir)
		return nil, nil, err
	}
	select {
	case line := <-p.shaken:
		addr, err := parseHandshake(line, p.lines != nil)
		return p, addr, err
	case <-ctx.Done():
		return p, nil, context.Cause(ctx)
	}
}

// startProgram starts the program with a directory for its socket.
func (h *Host) startProgram(cfg *Config, dir string) (*instance, error) {
	if err := cfg.verify(); err != nil {
		return nil, err
	}
	user, err := supervise.Credential(cfg.User)
	if err != nil {
		return nil, err
	}
	if user != nil {
		if err := os.Chown(dir, int(user.Uid), int(user.Gid)); err != nil {
			return nil, err
		}
	}
	cgroup := h.newCgroup(cfg)
	cmd := exec.Command(cfg.Command[0], cfg.Command[1:]...)
	cmd.Dir = cfg.Dir
	cmd.Env = append(cfg.environ(),
		wire.CookieKey+"="+wire.CookieValue,
		wire.VersionsKey+"="+strconv.Itoa(wire.Protocol),
		wire.SocketDirKey+"="+dir)
	out := newOutput(slog.New(h.programLog))
	p, err := startInstance(cmd, supervise.Options{User: user, Cgroup: cgroup, Starter: h.starter, Log: out.log}, dir, out)
	if err != nil && cgroup != nil {
		cgroup.Remove()
	}
	return p, err
}

// parseHandshake returns the address in a handshake line, or nil if the program sends its frames as lines.
func parseHandshake(line string, asLines bool) (net.Addr, error) {
	f := strings.Split(strings.TrimSpace(line), "|")
	switch {
	case line == "":
		return nil, errors.New("its standard output ended without the handshake of the protocol")
	case len(f) < 5 || f[0] != strconv.Itoa(wire.HandshakeVersion):
		return nil, fmt.Errorf("it printed %.200q, which is no handshake of the protocol: that is 1|1|unix|PATH|grpc| or 1|1|stdio||json|", line)
	case f[1] != strconv.Itoa(wire.Protocol):
		return nil, fmt.Errorf("it speaks version %s of the handler protocol, this host version %d", f[1], wire.Protocol)
	case asLines:
		return nil, nil
	case f[2] != "unix":
		return nil, fmt.Errorf("it serves on %s %s: it must serve on a unix socket in $%s", f[2], f[3], wire.SocketDirKey)
	case f[4] != "grpc":
		return nil, fmt.Errorf("it serves %q on its socket, not grpc", f[4])
	}
	return net.ResolveUnixAddr("unix", f[3])
}
