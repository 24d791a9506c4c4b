package server

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"sync"
	"time"
)

// lingerTimeout is how long a client may take to end a connection after a failed handshake.
const lingerTimeout = 500 * time.Millisecond

// encryptedListener accepts connections with TLS. Its connections look like others: reads and writes are in plain
// text.
type encryptedListener struct {
	net.Listener
	config *tls.Config
}

// Accept implements [net.Listener].
func (l *encryptedListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &encryptedConn{Conn: tls.Server(c, l.config), plain: c}, nil
}

// encryptedConn is a connection with TLS. The first Read makes the handshake, within the time for reading that the
// reader has set.
type encryptedConn struct {
	net.Conn          // a *tls.Conn
	plain    net.Conn // below it
	begin    sync.Once
}

// Read implements [net.Conn].
func (c *encryptedConn) Read(p []byte) (int, error) {
	c.begin.Do(c.handshake)
	return c.Conn.Read(p)
}

// handshake makes the handshake. Its error is that of each Read that follows.
func (c *encryptedConn) handshake() {
	_ = c.SetWriteDeadline(time.Now().Add(readHeaderTimeout)) // if it fails, the handshake fails, too
	err := c.Conn.(*tls.Conn).Handshake()
	_ = c.SetWriteDeadline(time.Time{})
	if err == nil {
		return
	}
	var other tls.RecordHeaderError
	if errors.As(err, &other) && other.Conn != nil && isPlainHTTP(other.RecordHeader) {
		_, _ = io.WriteString(c.plain, "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n"+
			"this port speaks TLS; use https\n")
	}
	c.linger()
}

// linger waits for a client to end the connection, but not long. A connection that is closed while there is something to
// read is reset, and the client would not learn why the handshake has failed.
func (c *encryptedConn) linger() {
	_ = c.plain.SetReadDeadline(time.Now().Add(lingerTimeout)) // if it fails, so does the next read
	_, _ = io.Copy(io.Discard, c.plain)
}

// isPlainHTTP reports whether a connection begins with a request that is not encrypted.
func isPlainHTTP(begin [5]byte) bool {
	switch string(begin[:]) {
	case "GET /", "HEAD ", "POST ", "PUT /", "OPTIO", "PRI *":
		return true
	}
	return false
}
