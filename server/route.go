package server

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// earlyFrames is how many frames a client may send before its first request, apart from frames that are answered
// here.
const earlyFrames = 64

// routedConn is a connection that is passed on if its first request is one of a gRPC library. The server of net/http
// has accepted it and reads from it. The first Read waits for the first request. If that is for the other server, the
// connection is passed on, and seems to have ended for net/http.
type routedConn struct {
	net.Conn
	pass func(net.Conn) bool // takes the connection; false if it cannot

	isRouted bool      // owned by the reader
	source   io.Reader // owned by the reader: its input

	mu       sync.Mutex
	isPassed bool // guarded by mu: the connection belongs to the other server
	isClosed bool // guarded by mu
}

// Read implements [net.Conn].
func (c *routedConn) Read(p []byte) (int, error) {
	if !c.isRouted {
		c.isRouted = true
		if err := c.route(); err != nil {
			return 0, err
		}
	}
	if c.passedOn() {
		return 0, io.EOF
	}
	return c.source.Read(p)
}

// Close implements [net.Conn]. It leaves a connection open that was passed on.
func (c *routedConn) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.isPassed {
		return nil
	}
	c.isClosed = true
	return c.Conn.Close()
}

// SetDeadline implements [net.Conn].
func (c *routedConn) SetDeadline(t time.Time) error {
	if c.passedOn() {
		return nil
	}
	return c.Conn.SetDeadline(t)
}

// SetReadDeadline implements [net.Conn].
func (c *routedConn) SetReadDeadline(t time.Time) error {
	if c.passedOn() {
		return nil
	}
	return c.Conn.SetReadDeadline(t)
}

// SetWriteDeadline implements [net.Conn].
func (c *routedConn) SetWriteDeadline(t time.Time) error {
	if c.passedOn() {
		return nil
	}
	return c.Conn.SetWriteDeadline(t)
}

func (c *routedConn) passedOn() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.isPassed
}

// route reads the beginning of the connection, and decides which server gets it.
func (c *routedConn) route() error {
	begin, isHTTP2, err := readPreface(c.Conn)
	if !isHTTP2 {
		c.source = io.MultiReader(bytes.NewReader(begin), c.Conn)
		if len(begin) > 0 {
			return nil
		}
		return err
	}
	// A client may wait for the settings of the server, and need not send a request at once.
	if err := c.Conn.SetReadDeadline(time.Now().Add(idleTimeout)); err != nil {
		return err
	}
	first, err := readFirst(c.Conn)
	if err != nil {
		return err
	}
	c.source = io.MultiReader(bytes.NewReader(begin), &ackFilter{source: io.MultiReader(bytes.NewReader(first.bytes), c.Conn)})
	if !first.isGRPC {
		return nil
	}
	return c.passOn(io.MultiReader(bytes.NewReader(begin), bytes.NewReader(first.bytes), c.Conn))
}

// passOn passes the connection to the other server, which reads from source.
func (c *routedConn) passOn(source io.Reader) error {
	if err := c.Conn.SetDeadline(time.Time{}); err != nil {
		return err
	}
	heard(c.Conn)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.isClosed {
		return net.ErrClosed
	}
	c.isPassed = c.pass(&replayedConn{c.Conn, source})
	return nil
}

// replayedConn is a connection that gives the bytes read before once more.
type replayedConn struct {
	net.Conn
	source io.Reader
}

// Read implements [net.Conn].
func (c *replayedConn) Read(p []byte) (int, error) { return c.source.Read(p) }

// readPreface reads the preface of HTTP/2, up to the first byte that differs.
func readPreface(c net.Conn) (read []byte, isHTTP2 bool, err error) {
	buf := make([]byte, len(http2.ClientPreface))
	for n := 0; n < len(buf); {
		more, err := c.Read(buf[n:])
		n += more
		if string(buf[:n]) != http2.ClientPreface[:n] || err != nil {
			return buf[:n], false, err
		}
	}
	return buf, true, nil
}

// firstRequest has the bytes of a client up to the header of its first request.
type firstRequest struct {
	bytes  []byte // without frames that were answered
	isGRPC bool   // it is one of a gRPC library
}

// readFirst sends the settings of this server, and reads frames up to the first request. The server that gets the
// connection reports mistakes in them.
func readFirst(c net.Conn) (firstRequest, error) {
	var read bytes.Buffer
	framer := http2.NewFramer(c, io.TeeReader(c, &read))
	framer.MaxHeaderListSize = maxHeader
	framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	framer.SetMaxReadFrameSize(16 << 10) // the limit for a client that knows no other settings
	if err := framer.WriteSettings(http2.Setting{ID: http2.SettingMaxConcurrentStreams, Val: maxStreams}); err != nil {
		return firstRequest{}, err
	}
	for range earlyFrames {
		before := read.Len()
		frame, err := framer.ReadFrame()
		switch f := frame.(type) {
		case *http2.MetaHeadersFrame:
			return firstRequest{read.Bytes(), isOfLibrary(f)}, nil
		case *http2.PingFrame:
			read.Truncate(before)
			if !f.IsAck() {
				err = framer.WritePing(true, f.Data)
			}
		}
		if failed := net.Error(nil); errors.As(err, &failed) {
			if failed.Timeout() {
				_ = framer.WriteGoAway(0, http2.ErrCodeNo, nil)
			}
			return firstRequest{}, err
		}
		if err != nil {
			break
		}
	}
	return firstRequest{bytes: read.Bytes()}, nil
}

// isOfLibrary reports whether a request is one of a gRPC library, which has its connections for itself. Clients of
// Connect may send other requests on the same connection, and so may a proxy.
func isOfLibrary(f *http2.MetaHeadersFrame) bool {
	header := make(http.Header)
	for _, field := range f.RegularFields() {
		header.Add(field.Name, field.Value)
	}
	for _, name := range []string{"Via", "Forwarded", "X-Forwarded-For", "X-Forwarded-Proto", "X-Request-Id", "Origin"} {
		if header.Get(name) != "" {
			return false
		}
	}
	agent := " " + header.Get("User-Agent") // an application may put its name in front of that of the library
	isLibrary := strings.Contains(agent, " grpc-") && !strings.Contains(agent, "connect") || strings.Contains(agent, " tonic/")
	content := header.Get("Content-Type")
	return isLibrary && (content == "application/grpc" || content == "application/grpc+proto")
}

// ackFilter leaves out the acknowledgement of the settings of readFirst: the server of net/http has not sent them.
type ackFilter struct {
	source io.Reader

	header  [9]byte // of a frame
	pending []byte  // the unread rest of header
	left    int     // bytes of the frame behind its header
	isDone  bool    // the frame was left out
}

// Read implements [io.Reader].
func (f *ackFilter) Read(p []byte) (int, error) {
	for {
		switch {
		case len(f.pending) > 0:
			n := copy(p, f.pending)
			f.pending = f.pending[n:]
			return n, nil
		case f.left > 0:
			n, err := f.source.Read(p[:min(len(p), f.left)])
			f.left -= n
			return n, err
		case f.isDone:
			return f.source.Read(p)
		}
		if n, err := io.ReadFull(f.source, f.header[:]); err != nil {
			if n == 0 {
				return 0, err
			}
			f.pending, f.isDone = f.header[:n], true // the end of the connection
			continue
		}
		const settings, ack = byte(http2.FrameSettings), byte(http2.FlagSettingsAck)
		f.left = int(f.header[0])<<16 | int(f.header[1])<<8 | int(f.header[2])
		if f.isDone = f.header[3] == settings && f.header[4]&ack != 0 && f.left == 0; !f.isDone {
			f.pending = f.header[:]
		}
	}
}

// routingListener accepts connections for two servers: it is the listener of net/http, and passes others on.
type routingListener struct {
	net.Listener
	others *passedListener
}

// Accept implements [net.Listener].
func (l *routingListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &routedConn{Conn: c, pass: l.others.pass}, nil
}

// passedListener is a listener of the connections that another one passes on.
type passedListener struct {
	addr   net.Addr
	conns  chan net.Conn
	closed chan struct{} // closed by Close
	once   sync.Once     // closes closed
}

func newPassedListener(addr net.Addr) *passedListener {
	return &passedListener{addr: addr, conns: make(chan net.Conn), closed: make(chan struct{})}
}

// pass gives Accept a connection. It returns false if the listener is closed.
func (l *passedListener) pass(c net.Conn) bool {
	select {
	case l.conns <- c:
		return true
	case <-l.closed:
		return false
	}
}

// Accept implements [net.Listener].
func (l *passedListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close implements [net.Listener].
func (l *passedListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

// Addr implements [net.Listener].
func (l *passedListener) Addr() net.Addr { return l.addr }
