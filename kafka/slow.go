package kafka

import (
	"net"
	"sync"
	"time"
)

// patientConn is a connection with a read deadline that moves on while bytes arrive. The client wants a whole answer until the
// deadline: over a slow network it would ask for the same large answer again and again, and never have it.
type patientConn struct {
	net.Conn

	mu   sync.Mutex
	idle time.Duration // guarded by mu: from the last bytes to the deadline; 0 if it does not move
}

// SetReadDeadline sets the time until which the next bytes have to arrive, and how much later those behind them.
func (c *patientConn) SetReadDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.idle = 0
	if !t.IsZero() {
		c.idle = max(0, time.Until(t))
	}
	return c.Conn.SetReadDeadline(t)
}

// SetDeadline sets a deadline that does not move.
func (c *patientConn) SetDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.idle = 0
	return c.Conn.SetDeadline(t)
}

func (c *patientConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.mu.Lock()
	defer c.mu.Unlock()
	if n > 0 && err == nil && c.idle > 0 {
		err = c.Conn.SetReadDeadline(time.Now().Add(c.idle))
	}
	return n, err
}
