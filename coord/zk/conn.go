package zk

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/taskengine/taskengine/coord/internal/reason"
)

// conn is a connection of the library with its session. The library connects again by itself while the session lasts,
// unless lost is set.
type conn struct {
	*zk.Conn
	servers *reason.Servers
	timeout atomic.Int64 // of the session, as the server has set it, in milliseconds; 0: not known yet
	session chan int64   // the id of the first session; holds one
	lost    func(*conn)  // called when a connection with a session was lost, after which there is no other one; may be nil
	opened  bool         // of the library's goroutine: there was a session
	once    sync.Once    // of closeNow

	mu     sync.Mutex
	wire   net.Conn // guarded by mu: the newest connection
	hungUp bool     // guarded by mu: there are no more connections
}

// dial returns a connection, which need not be there yet. The caller closes it. lost is that of the conn.
func dial(o Options, servers *reason.Servers, lost func(*conn)) (*conn, error) {
	c := &conn{servers: servers, session: make(chan int64, 1), lost: lost}
	dialer := func(network, address string, timeout time.Duration) (net.Conn, error) {
		w, err := c.connect(o, network, address, timeout)
		if err != nil {
			servers.Note(address, err)
			return nil, err
		}
		return c.connected(w)
	}
	ready := make(chan struct{})
	library, _, err := zk.Connect(o.Endpoints, o.Lease, zk.WithDialer(dialer), zk.WithHostProvider(new(names)),
		zk.WithLogInfo(false), zk.WithLogger(quiet{}), zk.WithEventCallback(func(e zk.Event) {
			switch e.State {
			case zk.StateHasSession:
				<-ready
				if !c.opened {
					c.opened = true
					c.session <- c.SessionID()
				}
			case zk.StateDisconnected:
				c.disconnected()
			}
		}))
	if err != nil {
		return nil, fmt.Errorf("zookeeper: %w", err)
	}
	c.Conn = library
	close(ready)
	return c, nil
}

// connect connects to a server.
func (c *conn) connect(o Options, network, address string, timeout time.Duration) (net.Conn, error) {
	longest := min(o.Lease/3, silence/3)
	d := net.Dialer{Timeout: min(timeout, longest)}
	raw, err := d.Dial(network, address)
	if err == nil && o.TLS != nil {
		raw, err = handshake(raw, address, o.TLS, longest)
	}
	if err != nil {
		return nil, err
	}
	w := &wire{Conn: c.servers.Watch(address, raw), longest: longest, timeout: &c.timeout}
	switch {
	case o.SASL:
		return &saslWire{wire: w, user: o.User, password: o.Password, refused: func(err error) { c.servers.Note(address, err) }}, nil
	case o.User != "":
		w.auth = authRequest(o.User + ":" + o.Password)
	}
	return w, nil
}

// handshake makes a connection an encrypted one.
func handshake(raw net.Conn, address string, config *tls.Config, limit time.Duration) (net.Conn, error) {
	if config.ServerName == "" {
		config = config.Clone()
		config.ServerName, _, _ = net.SplitHostPort(address)
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	encrypted := tls.Client(raw, config)
	if err := encrypted.HandshakeContext(ctx); err != nil {
		_ = raw.Close()
		return nil, err
	}
	return encrypted, nil
}

// await waits for the first session, and returns its id.
func (c *conn) await(ctx context.Context) (int64, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, silence, errSilent)
	defer cancel()
	select {
	case id := <-c.session:
		c.session <- id
		return id, nil
	case <-ctx.Done():
		return 0, fmt.Errorf("connect: %w", context.Cause(ctx))
	}
}

// connected returns a new connection, unless there are to be no more.
func (c *conn) connected(w net.Conn) (net.Conn, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.hungUp {
		_ = w.Close()
		return nil, errors.New("the session is abandoned")
	}
	c.wire = w
	return w, nil
}

// disconnected is called by the library's goroutine, which would connect again.
func (c *conn) disconnected() {
	if c.opened && c.lost != nil {
		c.hangUp()
		c.lost(c)
	}
}

// reconnect leaves the server. The library connects to the next one.
func (c *conn) reconnect() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.wire != nil {
		_ = c.wire.Close()
	}
}

// hangUp ends the connection to the server, so that the session ends by its timeout.
func (c *conn) hangUp() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.hungUp = true
	if c.wire != nil {
		_ = c.wire.Close()
	}
}

// close closes the connection and ends the session. It does not wait, because the library may for very long.
func (c *conn) close() { go c.closeNow() }

// closeNow closes the connection and ends the session.
func (c *conn) closeNow() { c.once.Do(c.Conn.Close) }

// quiet is a logger that logs nothing: the errors say enough.
type quiet struct{}

func (quiet) Printf(string, ...any) {}

// wire is a network connection that reads the timeout of the session from the first answer of the server, which the
// library keeps for itself. It waits for that answer no longer than for any other: the library waits for more than six
// timeouts, also if the server hangs while others could answer. And it sends the user to the server before the first
// request: the library does so only on the connections after the first one.
type wire struct {
	net.Conn
	longest time.Duration
	timeout *atomic.Int64
	auth    []byte // the request with the user; nil: there is none, or it was sent

	head []byte // the part of the first answer that was read: its length, the version of the protocol, and the timeout
	open bool   // the request for a session was sent
}

const headSize = 12

func (w *wire) Read(p []byte) (int, error) {
	n, err := w.Conn.Read(p)
	if missing := headSize - len(w.head); missing > 0 {
		w.head = append(w.head, p[:min(n, missing)]...)
		if len(w.head) == headSize {
			w.timeout.Store(int64(binary.BigEndian.Uint32(w.head[8:])))
		}
	}
	return n, err
}

// Write sends one request: the library writes each at once, and the second one when the session is open. From then on it reports no
// error: it closes the connection, and the library learns that by reading. To a write that fails the library would answer the
// request twice, and a third answer, at the end of a session, leaves a goroutine of it behind.
func (w *wire) Write(p []byte) (int, error) {
	if !w.open {
		w.open = true
		return w.Conn.Write(p)
	}
	var err error
	if w.auth != nil {
		_, err = w.Conn.Write(w.auth)
		w.auth = nil
	}
	if err == nil {
		_, err = w.Conn.Write(p)
	}
	if err != nil {
		_ = w.Close()
	}
	return len(p), nil
}

// authRequest returns a request that sends the user to a server. It has the number that ZooKeeper's own client uses for
// it; the library ignores the answer.
func authRequest(userAndPassword string) []byte {
	const number, kind = -4, 100
	var p []byte
	add := func(n int32) { p = binary.BigEndian.AppendUint32(p, uint32(n)) }
	addText := func(s string) { add(int32(len(s))); p = append(p, s...) }
	add(number)
	add(kind)
	add(0)
	addText("digest")
	addText(userAndPassword)
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(p))), p...)
}

func (w *wire) SetReadDeadline(t time.Time) error {
	if len(w.head) < headSize && time.Until(t) > w.longest {
		t = time.Now().Add(w.longest)
	}
	return w.Conn.SetReadDeadline(t)
}

// silence is after which time without an answer a connection is given up.
const silence = 10 * time.Second

// errSilent says that the library has not answered in time. It may never answer.
var errSilent = errors.New("no answer")

// do calls fn, which uses the library, and returns when it has ended, or ctx has, or there is silence: the library knows no
// contexts, and a request can get lost in it. Do calls fn again if no server could be reached, so that nothing was sent.
func do[T any](ctx context.Context, fn func() (T, error)) (T, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, silence, errSilent)
	defer cancel()
	type result struct {
		value T
		err   error
	}
	done := make(chan result, 1)
	go func() {
		for {
			v, err := fn()
			if errors.Is(err, zk.ErrNoServer) && ctx.Err() == nil {
				continue // the library has waited for a second
			}
			done <- result{v, err}
			return
		}
	}()
	select {
	case r := <-done:
		return r.value, r.err
	case <-ctx.Done():
		var zero T
		return zero, context.Cause(ctx)
	}
}
