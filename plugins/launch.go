//go:build linux || darwin

package plugins

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	goplugin "github.com/hashicorp/go-plugin"
	"github.com/hashicorp/go-plugin/runner"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/taskengine/taskengine/plugins/internal/wire"
)

// launch starts the program and returns its session once it has said hello. When it
// returns an error no process is left, and the error says what the process did.
func (h *Host) launch(ctx context.Context) (*session, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, h.cfg.StartTimeout,
		fmt.Errorf("it was not ready within %v", h.cfg.StartTimeout))
	defer cancel()
	p, addr, err := h.handshake(ctx)
	if p == nil {
		return nil, fmt.Errorf("plugins: handler %q: cannot start %q: %w", h.cfg.Name, h.cfg.Command[0], err)
	}
	if err == nil {
		var s *session
		if s, err = h.greet(ctx, p, addr); err == nil {
			return s, nil
		}
	}
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	status := "it was still running"
	select {
	case <-p.exited: // by itself: its own end explains more than ours would
		status = p.status
	case <-time.After(pipePatience):
		p.kill()
	case <-ctx.Done():
		p.kill()
	}
	return nil, fmt.Errorf("plugins: handler %q: %q did not start: %w (%s)%s",
		h.cfg.Name, h.cfg.Command[0], err, status, quoteTail(p.out.last()))
}

// handshake starts the program and reads its handshake line. A process it returns is
// the caller's, even with an error. No process means that none was started.
//
// go-plugin knows the handshake, and nothing more is left to it: it does not see the
// process's pipes, whose content can make it stop reading or panic, and never kills.
func (h *Host) handshake(ctx context.Context) (*process, net.Addr, error) {
	dir, err := socketDir()
	if err != nil {
		return nil, nil, err
	}
	r := &pluginRunner{host: h, dir: dir}
	client := goplugin.NewClient(&goplugin.ClientConfig{
		HandshakeConfig: goplugin.HandshakeConfig{
			ProtocolVersion: wire.Protocol, MagicCookieKey: wire.CookieKey, MagicCookieValue: wire.CookieValue,
		},
		VersionedPlugins: map[int]goplugin.PluginSet{wire.Protocol: {}},
		AllowedProtocols: []goplugin.Protocol{goplugin.ProtocolGRPC},
		StartTimeout:     2*h.cfg.StartTimeout + time.Minute, // ctx ends before
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
	p := r.process()
	if p == nil {
		removeAll(dir)
	}
	return p, addr, err
}

// pluginRunner is how go-plugin sees the process.
type pluginRunner struct {
	host *Host
	dir  string
	env  []string // what go-plugin tells the process

	mu      sync.Mutex // guards what follows
	proc    *process   // nil until Start
	aborted bool
}

var _ runner.Runner = (*pluginRunner)(nil)

func (r *pluginRunner) process() *process {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.proc
}

// abort kills the process, or keeps it from starting.
func (r *pluginRunner) abort() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.aborted = true
	if r.proc != nil {
		go r.proc.signal(sigKill)
	}
}

func (r *pluginRunner) Start(context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.aborted {
		return context.Canceled
	}
	c := r.host.cfg
	cmd := exec.Command(c.Command[0], c.Command[1:]...)
	cmd.Dir = c.Dir
	cmd.Env = append(append(c.environ(), r.env...), goplugin.EnvUnixSocketDir+"="+r.dir)
	p, err := startProcess(r.host.spawn, cmd, r.dir, &output{log: r.host.log})
	r.proc = p
	return err
}

func (r *pluginRunner) Wait(context.Context) error      { <-r.proc.exited; return nil }
func (r *pluginRunner) Kill(context.Context) error      { return nil } // launch does
func (r *pluginRunner) Stdout() io.ReadCloser           { return r.proc.first }
func (r *pluginRunner) Stderr() io.ReadCloser           { return io.NopCloser(strings.NewReader("")) }
func (r *pluginRunner) Diagnose(context.Context) string { return "" } // launch does
func (r *pluginRunner) Name() string                    { return r.host.cfg.Name }
func (r *pluginRunner) ID() string                      { return strconv.Itoa(r.proc.pid()) }

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

// greet opens the stream to a process that shook hands and exchanges welcome and hello.
func (h *Host) greet(ctx context.Context, p *process, addr net.Addr) (*session, error) {
	conn, err := grpc.NewClient("passthrough:///handler",
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, addr.Network(), addr.String())
		}),
		grpc.WithIdleTimeout(0),
		grpc.WithInitialWindowSize(4<<20), grpc.WithInitialConnWindowSize(4<<20),
		grpc.WithDefaultCallOptions(
			grpc.MaxCallRecvMsgSize(h.cfg.MaxResult+2*wire.FrameBytes),
			grpc.MaxCallSendMsgSize(math.MaxInt32)))
	if err != nil {
		return nil, err
	}
	s := newSession(h, p, conn)
	stop := context.AfterFunc(ctx, s.cancel) // the stream outlives ctx, but the greeting does not
	err = s.greet()
	if !stop() && err == nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		s.cancel()
		conn.Close()
		return nil, err
	}
	return s, nil
}

// greet fills in what the handler says of itself, or says what is wrong with it.
func (s *session) greet() error {
	stream, err := wire.NewHandlerClient(s.conn).Work(s.ctx)
	if err != nil {
		return fmt.Errorf("it does not serve the handler protocol: %w", err)
	}
	s.stream = stream
	welcome := &wire.Welcome{
		Protocol: wire.Protocol, Host: s.host.cfg.Host, Name: s.host.cfg.Name,
		Slots: uint32(s.host.cfg.Slots), MaxResultBytes: uint64(s.host.cfg.MaxResult),
	}
	if err := stream.Send(&wire.ToHandler{Welcome: welcome}); err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("send the welcome: %w", err) // io.EOF: Recv knows the reason
	}
	frame, err := stream.Recv()
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
	s.meet(hello, frame.GetCredits())
	return nil
}
