package client

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
	"github.com/taskengine/taskengine/server/proto/taskengine/v1/taskenginev1connect"
)

const (
	mostQuiet  = 1500 * time.Millisecond // without an answer from a node with requests under way, until it is probed
	leastQuiet = 250 * time.Millisecond
	mostProbe  = 2 * time.Second // for the answer of a node that is probed, or connected to
	leastProbe = 500 * time.Millisecond

	freshness = time.Second // a node that was heard for less than this need not be probed before a request that is made once

	sign    = 4 << 10  // bytes of an answer that has not come as a whole
	slowest = 64 << 10 // bytes a second of the slowest network: the time that a request may take to reach its node
)

// errSilent is the cause of the end of a try at a node that does not answer.
var errSilent = errors.New("the node takes requests and does not answer")

// patience is how long a client awaits a node that says nothing. A node that is slow, because a request waits there, answers
// the probe, and is awaited as long as the caller wants.
type patience struct {
	quiet time.Duration // until the node is probed
	probe time.Duration // from then until the node is left
}

// patienceOf returns the patience of a call with so much time and a request of so many bytes: a half of the time is for
// another node, if there is one.
func (n *nodes) patienceOf(ctx context.Context, size int) patience {
	p := patience{mostQuiet, mostProbe}
	if end, ok := ctx.Deadline(); ok && len(n.all) > 1 {
		part := time.Until(end) / 4
		p.quiet, p.probe = max(leastQuiet, min(p.quiet, part)), max(leastProbe, min(p.probe, part))
	}
	p.probe += arrival(size)
	return p
}

// arrival returns how long so many bytes may be on their way.
func arrival(size int) time.Duration { return time.Duration(size) * time.Second / slowest }

// wire is a connection to a node, which notes when much arrives. Little is no sign of life: the part of a node that keeps
// connections open may work while the others hang.
type wire struct {
	net.Conn
	node *node

	bytes atomic.Int64 // since the last sign
}

// Read implements [net.Conn].
func (w *wire) Read(b []byte) (int, error) {
	n, err := w.Conn.Read(b)
	if w.bytes.Add(int64(n)) >= sign {
		w.bytes.Store(0)
		w.node.hear()
	}
	return n, err
}

// Close implements [net.Conn].
func (w *wire) Close() error {
	w.node.mu.Lock()
	delete(w.node.wires, w)
	w.node.mu.Unlock()
	return w.Conn.Close()
}

// dial connects to the node. It uses no proxy: nodes are in the network of their clients.
func (n *node) dial(ctx context.Context, address string) (net.Conn, error) {
	network := "tcp"
	if path, ok := strings.CutPrefix(address, "unix:"); ok {
		network, address = "unix", path
	}
	conn, err := new(net.Dialer).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	w := &wire{Conn: conn, node: n}
	n.mu.Lock()
	n.wires[w] = struct{}{}
	n.mu.Unlock()
	return w, nil
}

// ear is when a node has answered last, or has sent a part of an answer.
type ear struct {
	begin    time.Time    // of the client
	last     atomic.Int64 // nanoseconds from begin
	isSilent atomic.Bool  // a probe had no answer, and the node has not answered since
}

func (e *ear) hear() {
	e.last.Store(int64(time.Since(e.begin)))
	e.isSilent.Store(false)
}

func (e *ear) at() time.Time                 { return e.begin.Add(time.Duration(e.last.Load())) }
func (e *ear) isFresh() bool                 { return e.last.Load() > 0 && time.Since(e.at()) < freshness }
func (e *ear) hasHeard(since time.Time) bool { return e.at().After(since) }

// probe is a request for the version of a node.
type probe struct {
	over     chan struct{} // closed at its end
	answered bool          // set before over is closed
}

// probe asks the node for its version, unless it is being asked, and closes the connections of a node that stays silent.
func (n *node) startProbe() *probe {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.probing != nil {
		return n.probing
	}
	p := &probe{over: make(chan struct{})}
	if n.isClosed {
		close(p.over)
		return p
	}
	n.probing = p
	n.work.Go(func() { n.runProbe(p) })
	return p
}

func (n *node) runProbe(p *probe) {
	defer close(p.over)
	ctx, cancel := context.WithTimeout(context.Background(), mostProbe) // the end of the connection ends it
	defer cancel()
	begin := time.Now()
	err := n.conn.Invoke(ctx, taskenginev1connect.TaskServiceVersionProcedure, &taskenginev1.VersionRequest{}, &taskenginev1.VersionResponse{})
	if p.answered = isAnswer(err); p.answered {
		n.hear()
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.probing = nil
	switch {
	case n.hasHeard(begin):
		n.isSuspect = !p.answered
	case ctx.Err() != nil:
		n.reason = errSilent.Error()
		for w := range n.wires {
			_ = w.Conn.Close() // it is of no use with or without an error
		}
	}
}

// isAnswer reports whether the error of a request shows that the node has answered it.
func isAnswer(err error) bool {
	switch status.Code(err) {
	case codes.Unavailable, codes.DeadlineExceeded, codes.Canceled:
		return false
	}
	return true
}

// isAlive probes the node, and reports whether something came from it in some time.
func (n *node) isAlive(ctx context.Context, wait time.Duration) bool {
	begin := time.Now()
	p := n.startProbe()
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-p.over:
	case <-timer.C:
		return n.hasHeard(begin)
	case <-ctx.Done():
		return n.hasHeard(begin)
	}
	return p.answered || n.hasHeard(begin)
}

// silenced has a node left that a probe had no answer from.
func (n *node) silenced() {
	n.isSilent.Store(true)
	n.suspect()
}

// suspect has the node probed before it is used again, because a call has ended at its deadline and nothing had come.
func (n *node) suspect() {
	n.mu.Lock()
	n.isSuspect = true
	n.mu.Unlock()
	n.startProbe()
}

// watch ends a try at a node that is silent.
type watch struct {
	node      *node
	ctx       context.Context // of the try
	cancel    context.CancelCauseFunc
	isAwaited func() (patience, bool) // whether the node has to answer something now

	running sync.Mutex // held by check
	timer   *time.Timer
	isArmed atomic.Bool
}

// watched returns a watch with a context for one try. It does nothing until it is armed.
func (n *node) watched(ctx context.Context, isAwaited func() (patience, bool)) *watch {
	w := &watch{node: n, isAwaited: isAwaited}
	w.ctx, w.cancel = context.WithCancelCause(ctx)
	w.timer = time.AfterFunc(time.Hour, w.check)
	w.timer.Stop()
	return w
}

// arm begins to watch, if it does not.
func (w *watch) arm() {
	if w.isArmed.Load() {
		return
	}
	switch p, ok := w.isAwaited(); {
	case ok && w.node.isSilent.Load(): // another try has found that
		w.cancel(errSilent)
	case ok:
		w.rearm(p.quiet)
	}
}

// stop ends the try, and reports whether the node was silent.
func (w *watch) stop() bool {
	isSilent := errors.Is(context.Cause(w.ctx), errSilent)
	w.cancel(nil)
	w.timer.Stop()
	w.running.Lock() // a check ends with the context of the try
	defer w.running.Unlock()
	return isSilent
}

func (w *watch) check() {
	w.running.Lock()
	defer w.running.Unlock()
	w.isArmed.Store(false)
	p, ok := w.isAwaited()
	if !ok || w.ctx.Err() != nil {
		return
	}
	if rest := p.quiet - time.Since(w.node.at()); rest > 0 {
		w.rearm(rest)
		return
	}
	if w.node.isAlive(w.ctx, p.probe) {
		w.rearm(p.quiet)
		return
	}
	w.cancel(errSilent)
}

func (w *watch) rearm(wait time.Duration) {
	if w.ctx.Err() == nil && w.isArmed.CompareAndSwap(false, true) {
		w.timer.Reset(wait)
	}
}

// invoke makes a request. It returns an error that wraps [ErrUnavailable] if the node is silent.
func (n *node) invoke(ctx context.Context, p patience, procedure string, req, res proto.Message) error {
	begin := time.Now()
	w := n.watched(ctx, func() (patience, bool) { return p, true })
	w.arm()
	var trailer metadata.MD
	err := n.conn.Invoke(w.ctx, procedure, req, res, grpc.Trailer(&trailer))
	isSilent := w.stop()
	if status.Code(err) == codes.Internal && !isText(req) { // it was not sent
		return newError("", codes.InvalidArgument, "a request has a string that is not UTF-8; strings must be UTF-8", "")
	}
	if isAnswer(err) {
		n.hear()
	}
	switch {
	case err == nil:
		return nil
	case isSilent:
		n.silenced()
		return newError(n.address, codes.Unavailable, errSilent.Error(), "")
	case ctx.Err() != nil && !n.hasHeard(begin):
		n.suspect()
	}
	return errorOf(n.address, err, trailer)
}

// isText reports whether the texts of a message are UTF-8, so that it can be sent.
func isText(m proto.Message) bool {
	_, err := proto.Marshal(m)
	return err == nil
}
