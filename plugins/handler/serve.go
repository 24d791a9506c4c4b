package handler

import (
	"errors"
	"fmt"
	"math"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc"

	"github.com/taskengine/taskengine/plugins/internal/wire"
	"github.com/taskengine/taskengine/task"
)

// Handlers are the handlers of a program by the task types they serve.
type Handlers map[string]task.Handler

// Func makes a function a handler.
type Func = task.HandlerFunc

// Program is a handler program. Only Handlers is required.
type Program struct {
	Handlers Handlers
	Version  string // of the program, for display
	Slots    int    // how many tasks at once unless the host sets it; default 64, or the size of the largest batch if that is more
}

// Serve serves the handlers until the host ends the process or is gone. It must be called from main, which should return
// after it.
//
// If the program was not started by a host and TASKENGINE_ADDRESS has addresses of nodes, separated by commas, Serve
// runs the program as a worker of these nodes, as [Program.Work] does, until it gets SIGTERM or SIGINT. The variables
// TASKENGINE_WORKER_HANDLER, TASKENGINE_WORKER_LABELS (such as region=eu,disk=fast) and TASKENGINE_TOKEN are the other
// fields of its [Connection]. Without TASKENGINE_ADDRESS, Serve prints instructions and exits with status 1.
func Serve(h Handlers) { Program{Handlers: h}.Serve() }

const (
	defaultSlots = 64
	firstContact = time.Minute     // within which a host must connect
	lastMoments  = 2 * time.Second // for handlers to return after the host is gone
)

// Serve is like the function [Serve] for a program with other fields set.
func (p Program) Serve() {
	if err := p.serve(); err != nil {
		fmt.Fprintln(os.Stderr, "handler:", err)
		os.Exit(1)
	}
}

// fillIn sets the fields that have defaults.
func (p *Program) fillIn() {
	if p.Slots > 0 {
		return
	}
	p.Slots = defaultSlots
	for _, b := range batchesOf(p.Handlers) {
		p.Slots = max(p.Slots, b.size)
	}
}

func (p Program) serve() error {
	p.fillIn()
	if len(p.Handlers) == 0 {
		return errors.New("the program serves no task type")
	}
	if os.Getenv(wire.CookieKey) != wire.CookieValue {
		if addresses := os.Getenv(addressVariable); addresses != "" {
			return p.work(addresses)
		}
		return errors.New("this program handles tasks: name it as a handler's command in the configuration of taskengine, which starts it, or set " + addressVariable + " to the address of a node, host:port, to run as its worker")
	}
	own := strconv.Itoa(wire.Protocol)
	if theirs := os.Getenv(wire.VersionsKey); !slices.Contains(strings.Split(theirs, ","), own) {
		return fmt.Errorf("it speaks version %s of the handler protocol, the host %q", own, theirs)
	}
	path := filepath.Join(os.Getenv(wire.SocketDirKey), "s"+strconv.Itoa(os.Getpid()))
	listener, err := net.Listen("unix", path)
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	server := grpc.NewServer(
		grpc.MaxRecvMsgSize(math.MaxInt32), grpc.MaxSendMsgSize(math.MaxInt32),
		grpc.InitialWindowSize(4<<20), grpc.InitialConnWindowSize(4<<20))
	w := &worker{program: p, met: make(chan struct{}), over: make(chan struct{})}
	wire.RegisterHandlerServer(server, w)
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	defer server.Stop()

	// The handshake must be the first line of the standard output, so other output goes to the standard error. The host
	// logs both.
	handshake := os.Stdout
	os.Stdout = os.Stderr
	fmt.Fprintf(handshake, "%d|%d|unix|%s|grpc|\n", wire.HandshakeVersion, wire.Protocol, path)

	contact := time.NewTimer(firstContact)
	defer contact.Stop()
	select {
	case err := <-served:
		return fmt.Errorf("serve: %w", err)
	case <-contact.C:
		return fmt.Errorf("no host connected within %v", firstContact)
	case <-w.met:
	}
	<-w.over
	return nil
}
