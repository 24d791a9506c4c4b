//go:build linux || darwin

package plugins

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"
	goplugin "github.com/hashicorp/go-plugin"
	"github.com/hashicorp/go-plugin/runner"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/taskengine/taskengine/internal/supervise"
	"github.com/taskengine/taskengine/plugins/internal/calls"
	"github.com/taskengine/taskengine/plugins/internal/wire"
)

// launch starts the program, alone for one task of the quarantine, and returns its session after the program has sent its hello. If launch returns an error,
// the process has ended, and the error says how.
func (h *Host) launch(ctx context.Context, cfg *Config, alone bool) (*session, error) {
	done, err := cfg.Turns.acquire(ctx)
	if err != nil {
		return nil, fmt.Errorf("plugins: handler %q: %w", cfg.Name, err)
	}
	defer done()
	ctx, cancel := context.WithTimeoutCause(ctx, cfg.StartTimeout,
		fmt.Errorf("it was not ready within %v", cfg.StartTimeout))
	defer cancel()
	p, addr, err := h.handshake(ctx, cfg)
	if p == nil {
		return nil, fmt.Errorf("plugins: handler %q: cannot start %q: %w", cfg.Name, cfg.Command[0], err)
	}
	if err == nil {
		s := newSession(h, cfg, p, alone)
		if err = s.connect(ctx, addr); err == nil {
			return s, nil
		}
	}
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	status := "it was still running"
	select {
	case <-p.exited: // by itself: that explains more than the kill would
		status = p.exit.String()
	case <-time.After(drainTime):
		p.kill()
	case <-ctx.Done():
		p.kill()
	}
	return nil, fmt.Errorf("plugins: handler %q: %q did not start: %w (%s)%s",
		cfg.Name, cfg.Command[0], err, status, quoteTail(p.out.last()))
}

// handshake starts the program and reads its handshake line. If it returns a process, the caller owns it, even if there
// is an error too. It returns nil if no process was started.
//
// It uses go-plugin for the handshake only. go-plugin does not get the pipes of the process, because some output makes
// it stop reading or panic, and it does not kill the process.
func (h *Host) handshake(ctx context.Context, cfg *Config) (*instance, net.Addr, error) {
	dir, err := socketDir()
	if err != nil {
		return nil, nil, err
	}
	r := &pluginRunner{host: h, cfg: cfg, dir: dir}
	client := goplugin.NewClient(&goplugin.ClientConfig{
		HandshakeConfig: goplugin.HandshakeConfig{
			ProtocolVersion: wire.Protocol, MagicCookieKey: wire.CookieKey, MagicCookieValue: wire.CookieValue,
		},
		VersionedPlugins: map[int]goplugin.PluginSet{wire.Protocol: {}},
		AllowedProtocols: []goplugin.Protocol{goplugin.ProtocolGRPC},
		StartTimeout:     2*cfg.StartTimeout + time.Minute, // ctx ends first
		SkipHostEnv:      true,
		UnixSocketConfig: &goplugin.UnixSocketConfig{TempDir: dir},
		Logger:           hclog.New(&hclog.LoggerOptions{Level: hclog.Off, Output: io.Discard}),
		RunnerFunc: func(_ hclog.Logger, spec *exec.Cmd, _ string) (runner.Runner, error) {
			r.env = spec.Env
			return r, nil
		},
	})
	defer context.AfterFunc(ctx, r.abort)()
	addr, err := client.Start()
	// client.Kill is never called: it would connect to the process and wait for it.
	p := r.instance()
	if p == nil {
		removeAll(dir)
	}
	return p, addr, err
}

// pluginRunner starts the process for go-plugin.
type pluginRunner struct {
	host *Host
	cfg  *Config
	dir  string
	env  []string // that go-plugin sets

	mu      sync.Mutex
	proc    *instance // guarded by mu: nil until Start
	aborted bool      // guarded by mu
}

var _ runner.Runner = (*pluginRunner)(nil)

func (r *pluginRunner) instance() *instance {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.proc
}

// abort kills the process, or keeps it from being started.
func (r *pluginRunner) abort() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.aborted = true
	if r.proc != nil {
		go r.proc.Signal(syscall.SIGKILL)
	}
}

func (r *pluginRunner) Start(context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.aborted {
		return context.Canceled
	}
	c := r.cfg
	if err := c.verify(); err != nil {
		return err
	}
	user, err := supervise.Credential(c.User)
	if err != nil {
		return err
	}
	if user != nil {
		if err := os.Chown(r.dir, int(user.Uid), int(user.Gid)); err != nil {
			return err
		}
	}
	cgroup := r.host.newCgroup(c)
	cmd := exec.Command(c.Command[0], c.Command[1:]...)
	cmd.Dir = c.Dir
	cmd.Env = append(append(c.environ(), r.env...), goplugin.EnvUnixSocketDir+"="+r.dir)
	out := newOutput(slog.New(r.host.programLog))
	p, err := startInstance(cmd, supervise.Options{User: user, Cgroup: cgroup, Starter: r.host.starter, Log: out.log}, r.dir, out)
	if err != nil && cgroup != nil {
		cgroup.Remove()
	}
	r.proc = p
	return err
}

func (r *pluginRunner) Wait(context.Context) error      { <-r.proc.exited; return nil }
func (r *pluginRunner) Kill(context.Context) error      { return nil } // launch does
func (r *pluginRunner) Stdout() io.ReadCloser           { return r.proc.first }
func (r *pluginRunner) Stderr() io.ReadCloser           { return io.NopCloser(strings.NewReader("")) }
func (r *pluginRunner) Diagnose(context.Context) string { return "" } // launch does
func (r *pluginRunner) Name() string                    { return r.cfg.Name }
func (r *pluginRunner) ID() string                      { return strconv.Itoa(r.proc.PID()) }

func (r *pluginRunner) PluginToHost(network, addr string) (string, string, error) {
	if network != "unix" {
		return "", "", fmt.Errorf("it serves on %s %s: it must serve on a unix socket in $%s",
			network, addr, goplugin.EnvUnixSocketDir)
	}
	return network, addr, nil
}

func (r *pluginRunner) HostToPlugin(network, addr string) (string, string, error) {
	return network, addr, nil
}

// connect opens the stream to the process of s after the handshake, and exchanges welcome and hello.
func (s *session) connect(ctx context.Context, addr net.Addr) error {
	if err := s.open(addr); err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, s.cancel) // the stream outlives ctx; the exchange does not
	err := s.exchangeHello()
	if !stop() && err == nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		s.cancel()
		s.release()
	}
	return err
}

// minFrame is the least limit of bytes in one frame from the handler. It is far above small values of MaxResult and
// MaxPayload, so that an answer that is too large is refused and does not break the stream.
const minFrame = 16 << 20

// open opens the stream to the process: by gRPC to addr, or as lines over its standard input and output.
func (s *session) open(addr net.Addr) error {
	most := max(minFrame, 2*(s.cfg.MaxResult+s.cfg.MaxPayload)) + 2*wire.FrameBytes
	if p := s.proc; p.lines != nil {
		s.stream = wire.NewLines(p.lines, p.Stdin, 2*most) // base64 is longer
		s.release = func() { p.Stdout.Close() }
		context.AfterFunc(s.ctx, func() { _ = p.Stdout.SetReadDeadline(time.Now()) })
		return nil
	}
	conn, err := grpc.NewClient("passthrough:///handler",
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, addr.Network(), addr.String())
		}),
		grpc.WithIdleTimeout(0),
		grpc.WithInitialWindowSize(4<<20), grpc.WithInitialConnWindowSize(4<<20),
		grpc.WithDefaultCallOptions(
			grpc.MaxCallRecvMsgSize(most),
			grpc.MaxCallSendMsgSize(math.MaxInt32)))
	if err != nil {
		return err
	}
	s.release = func() { conn.Close() }
	if s.stream, err = wire.NewHandlerClient(conn).Work(s.ctx); err != nil {
		s.release()
		return fmt.Errorf("it does not serve the handler protocol: %w", err)
	}
	return nil
}

// exchangeHello sends the welcome and stores the hello, or returns the mistake in the hello.
func (s *session) exchangeHello() error {
	welcome := &wire.Welcome{
		Protocol: wire.Protocol, Host: s.cfg.Host, Name: s.cfg.Name,
		Slots: uint32(s.cfg.Slots), MaxResultBytes: uint64(s.cfg.MaxResult), MaxPayloadBytes: uint64(s.cfg.MaxPayload), Features: calls.Features,
	}
	if err := s.stream.Send(&wire.ToHandler{Welcome: welcome}); err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, wire.ErrMaybeSent) {
		return fmt.Errorf("send the welcome: %w", err) // Recv returns the reason of the others
	}
	frame, err := s.stream.Recv()
	if err != nil {
		return fmt.Errorf("it does not serve the handler protocol: %w", err)
	}
	hello := frame.GetHello()
	switch {
	case hello == nil:
		return errors.New("its first frame is not a hello")
	case hello.GetProtocol() != wire.Protocol:
		return fmt.Errorf("it speaks version %d of the protocol, this host version %d", hello.GetProtocol(), wire.Protocol)
	case len(hello.GetTypes()) == 0:
		return errors.New("it serves no task type")
	case hello.GetSlots() == 0:
		return errors.New("it has no slot to run a task in")
	}
	s.setHello(hello, frame.GetCredits())
	s.proc.out.setOnlyCall(s.onlyCall)
	return nil
}
