package server

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"connectrpc.com/connect"
	"golang.org/x/net/http2"
	"google.golang.org/grpc/credentials"

	"github.com/taskengine/taskengine/internal/ratelog"
	"github.com/taskengine/taskengine/server/proto/taskengine/v1/taskenginev1connect"
)

// Bounds of messages that clients have begun to send and not finished. They take memory of the node.
const (
	// messageTime is how long one message may take from its first to its last byte.
	messageTime = time.Minute
	// connectionBytes and nodeBytes are how much a connection and all of them may have under way, if that is enough for the
	// largest request and for two of them.
	connectionBytes = 128 << 20
	nodeBytes       = 512 << 20
	// leastCost is the least cost in bytes of a part of a message, however short it is.
	leastCost = 256
)

// intake bounds the bytes under way of the connections of an API.
type intake struct {
	perConnection, perNode int64 // bytes
	patience               time.Duration
	log                    *slog.Logger
	closings               ratelog.Limiter // of log lines

	mu    sync.Mutex
	total int64            // guarded by mu: bytes under way
	all   map[*inflow]bool // guarded by mu: the inflows with bytes under way
}

func newIntake(maxRequest int, log *slog.Logger) *intake {
	return &intake{
		perConnection: max(connectionBytes, int64(maxRequest)+1<<20), perNode: max(nodeBytes, 2*int64(maxRequest)), patience: messageTime,
		log: log, all: make(map[*inflow]bool),
	}
}

// inflow counts the bytes under way of one connection or request.
type inflow struct {
	of    *intake
	from  string
	close func() // ends the connection; it does not wait

	held int64 // guarded by of.mu
}

// add changes the bytes under way of f by n. If that exceeds a bound, it returns an error, or ends another connection that
// has more.
func (f *inflow) add(n int64) error {
	if n == 0 {
		return nil
	}
	in := f.of
	in.mu.Lock()
	f.held += n
	in.total += n
	if f.held > 0 {
		in.all[f] = true
	} else {
		delete(in.all, f)
	}
	var largest *inflow
	switch {
	case n < 0:
	case f.held > in.perConnection:
		largest = f
	case in.total > in.perNode:
		largest = f
		for other := range in.all {
			if other.held > largest.held {
				largest = other
			}
		}
	}
	in.mu.Unlock()
	if largest == nil {
		return nil
	}
	return in.end(largest, f, fmt.Errorf("requests that are not finished have more than %d bytes on a connection, or %d on the node", in.perConnection, in.perNode))
}

// errUnderWay is the reason why a connection is ended that has too much under way, or takes too long.
var errUnderWay = errors.New("too much of unfinished requests")

// end ends a connection. It returns an error if it is that of the caller.
func (in *intake) end(which, caller *inflow, why error) error {
	if in.closings.Allow() {
		in.log.Warn("a connection was ended for its unfinished requests", "from", which.from, "error", why)
	}
	which.close()
	if which == caller {
		return fmt.Errorf("%w: %w", errUnderWay, why)
	}
	return nil
}

// message follows the messages of a stream. Each has a prefix of five bytes with its length.
type message struct {
	prefix [5]byte
	got    int       // bytes of prefix
	left   int64     // bytes of the message to come, after the prefix
	held   int64     // bytes of the message under way
	since  time.Time // when it was first seen unfinished; zero before that
}

// unfinished reports whether a message has begun.
func (m *message) unfinished() bool { return m.got > 0 }

// take takes in bytes of the stream, and returns by how much more is under way.
func (m *message) take(p []byte) (more int64) {
	before := m.held
	for len(p) > 0 {
		if m.got < len(m.prefix) {
			n := copy(m.prefix[m.got:], p)
			m.got, p = m.got+n, p[n:]
			if m.got < len(m.prefix) {
				break
			}
			m.left = int64(m.prefix[1])<<24 | int64(m.prefix[2])<<16 | int64(m.prefix[3])<<8 | int64(m.prefix[4])
		}
		n := min(m.left, int64(len(p)))
		p, m.left, m.held = p[n:], m.left-n, m.held+n
		if m.left == 0 {
			*m = message{}
		}
	}
	return m.held - before
}

// cost adds the overhead of a frame with a part of the message to the bytes under way, and returns it.
func (m *message) cost(part int) (more int64) {
	if !m.unfinished() || part >= leastCost {
		return 0
	}
	m.held += int64(leastCost - part)
	return int64(leastCost - part)
}

// metered bounds the bytes under way of requests to h.
func (a *API) metered(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Body == nil || r.Body == http.NoBody {
			h.ServeHTTP(w, r)
			return
		}
		control := http.NewResponseController(w)
		f, ok := r.Context().Value(inflowKey{}).(*inflow)
		if !ok { // it is not served by a Listener
			f = &inflow{of: a.intake, from: r.RemoteAddr, close: func() { _ = control.SetReadDeadline(time.Unix(1, 0)) }}
		}
		b := &meteredBody{ReadCloser: r.Body, f: f, control: control, isStream: r.URL.Path == taskenginev1connect.TaskServiceSubmitStreamProcedure && r.ProtoMajor == 2}
		if !b.isStream {
			_ = control.SetReadDeadline(time.Now().Add(a.intake.patience))
		}
		r.Body = b
		defer b.release()
		h.ServeHTTP(w, r)
	})
}

// inflowKey is the key of the inflow of a connection in the contexts of its requests.
type inflowKey struct{}

// meteredBody is the body of a request. One goroutine reads it.
type meteredBody struct {
	io.ReadCloser
	f        *inflow
	control  *http.ResponseController
	isStream bool // of messages
	message  message
	whole    int64 // bytes under way, if it is one message
}

// Read implements [io.Reader].
func (b *meteredBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	more := int64(n)
	if b.isStream {
		more = b.message.take(p[:n])
		switch began := b.message.since; {
		case b.message.unfinished() && began.IsZero():
			b.message.since = time.Now()
			_ = b.control.SetReadDeadline(b.message.since.Add(b.f.of.patience))
		case !b.message.unfinished():
			_ = b.control.SetReadDeadline(time.Time{})
		}
	}
	b.whole += more
	if failed := b.f.add(more); failed != nil {
		return 0, connect.NewError(connect.CodeResourceExhausted, failed)
	}
	if err != nil && !b.isStream {
		b.release()
	}
	if errors.Is(err, io.EOF) && !b.isStream { // after another error the server would wait for the rest of the body
		_ = b.control.SetReadDeadline(time.Now().Add(readTimeout))
	}
	return n, err
}

// release says that nothing of the request is under way any more.
func (b *meteredBody) release() {
	_ = b.f.add(-b.whole)
	b.whole = 0
}

// meteredCredentials have the connections of gRPC libraries metered. They encrypt nothing.
type meteredCredentials struct {
	credentials.TransportCredentials
	in *intake
}

// ServerHandshake implements [credentials.TransportCredentials].
func (m meteredCredentials) ServerHandshake(c net.Conn) (net.Conn, credentials.AuthInfo, error) {
	c, info, err := m.TransportCredentials.ServerHandshake(c)
	if err != nil {
		return nil, nil, err
	}
	return newMeteredConn(c, m.in, len(http2.ClientPreface)), info, nil
}

// Clone implements [credentials.TransportCredentials].
func (m meteredCredentials) Clone() credentials.TransportCredentials {
	return meteredCredentials{m.TransportCredentials.Clone(), m.in}
}

// meteredConn is a connection of HTTP/2. It parses the frames from the client.
type meteredConn struct {
	net.Conn
	f *inflow

	skip    int     // bytes of the preface to come; owned by the reader, as are those up to streams
	header  [9]byte // of a frame
	got     int     // bytes of header
	left    int     // bytes of the frame to come
	padding int     // of these at its end; -1 if its length is to come
	data    int     // bytes of the frame that were taken in

	mu      sync.Mutex
	streams map[uint32]*message // guarded by mu: with a message that has begun
	timer   *time.Timer         // guarded by mu: ends the connection if a message takes too long; nil if none is unfinished
	isOver  bool                // guarded by mu
}

func newMeteredConn(c net.Conn, in *intake, preface int) *meteredConn {
	m := &meteredConn{Conn: c, skip: preface, streams: make(map[uint32]*message)}
	m.f = &inflow{of: in, from: c.RemoteAddr().String(), close: func() { _ = c.Close() }}
	return m
}

// Read implements [net.Conn].
func (c *meteredConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n > 0 {
		if failed := c.f.add(c.see(p[:n])); failed != nil {
			return 0, failed
		}
	}
	return n, err
}

// see reads frames, and returns by how much more is under way.
func (c *meteredConn) see(p []byte) (more int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := min(c.skip, len(p))
	c.skip, p = c.skip-n, p[n:]
	for len(p) > 0 {
		if c.got < len(c.header) {
			n := copy(c.header[c.got:], p)
			c.got, p = c.got+n, p[n:]
			if c.got < len(c.header) {
				break
			}
			c.begin()
		}
		n := min(c.left, len(p))
		more += c.payload(p[:n])
		p = p[n:]
		if c.left == 0 {
			more += c.finish()
		}
	}
	c.arm()
	return more
}

const (
	frameData, frameHeaders, frameReset = 0, 1, 3
	flagEndStream, flagPadded           = 1, 8
)

func (c *meteredConn) stream() uint32 {
	return (uint32(c.header[5])<<24 | uint32(c.header[6])<<16 | uint32(c.header[7])<<8 | uint32(c.header[8])) &^ (1 << 31)
}

// begin begins a frame after its header was read.
func (c *meteredConn) begin() {
	c.left = int(c.header[0])<<16 | int(c.header[1])<<8 | int(c.header[2])
	c.padding, c.data = 0, 0
	if c.header[3] == frameData && c.header[4]&flagPadded != 0 && c.left > 0 {
		c.padding = -1
	}
}

// payload takes in a part of a frame.
func (c *meteredConn) payload(p []byte) (more int64) {
	if len(p) > 0 && c.padding < 0 {
		c.padding, p, c.left = int(p[0]), p[1:], c.left-1
	}
	data := p[:max(0, min(len(p), c.left-c.padding))]
	c.left -= len(p)
	if c.header[3] != frameData || len(data) == 0 {
		return 0
	}
	m := c.streams[c.stream()]
	if m == nil {
		m = new(message)
		c.streams[c.stream()] = m
	}
	c.data += len(data)
	if more = m.take(data); !m.unfinished() {
		delete(c.streams, c.stream())
	}
	return more
}

// finish ends a frame.
func (c *meteredConn) finish() (more int64) {
	c.got = 0
	kind, flags := c.header[3], c.header[4]
	if m := c.streams[c.stream()]; m != nil && kind == frameData {
		more = m.cost(c.data)
	}
	if kind == frameReset || (kind == frameData || kind == frameHeaders) && flags&flagEndStream != 0 {
		if m := c.streams[c.stream()]; m != nil {
			more -= m.held
			delete(c.streams, c.stream())
		}
	}
	return more
}

// arm sets the timer if a message is unfinished. The caller has the mutex.
func (c *meteredConn) arm() {
	if len(c.streams) == 0 || c.isOver {
		return
	}
	now := time.Now()
	for _, m := range c.streams {
		if m.since.IsZero() {
			m.since = now
		}
	}
	if c.timer == nil {
		c.timer = time.AfterFunc(c.f.of.patience, c.look)
	}
}

// look ends the connection if a message has taken too long.
func (c *meteredConn) look() {
	c.mu.Lock()
	c.timer = nil
	wait, now := time.Duration(0), time.Now()
	isLate := false
	for _, m := range c.streams {
		left := c.f.of.patience - now.Sub(m.since)
		if isLate = isLate || left <= 0; wait == 0 || left < wait {
			wait = left
		}
	}
	if !isLate && len(c.streams) > 0 && !c.isOver {
		c.timer = time.AfterFunc(wait, c.look)
	}
	isLate = isLate && !c.isOver
	c.mu.Unlock()
	if isLate {
		_ = c.f.of.end(c.f, nil, fmt.Errorf("a message has not ended after %v", c.f.of.patience))
	}
}

// Close implements [net.Conn].
func (c *meteredConn) Close() error {
	c.mu.Lock()
	c.isOver = true
	if c.timer != nil {
		c.timer.Stop()
	}
	held := int64(0)
	for _, m := range c.streams {
		held += m.held
	}
	clear(c.streams)
	c.mu.Unlock()
	_ = c.f.add(-held)
	return c.Conn.Close()
}
