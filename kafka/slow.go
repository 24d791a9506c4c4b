package kafka

import (
	"context"
	"errors"
	"net"
	"os"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// mostPatience is how many times longer than the client wants a connection may wait for the first byte of an answer.
const mostPatience = 4

// patience is how long the connections of a client wait for its brokers. A broker that needs longer for each answer than the
// client waits would be asked the same again and again, and never be heard.
type patience struct {
	mu     sync.Mutex
	factor map[question]int // guarded by mu: of the time that the client wants; 1 if there is none
}

// question are the requests to a broker for which the client wants an answer within some time, in seconds. Requests of
// other kinds, such as the first one on a connection, have other times.
type question struct {
	address string
	within  time.Duration
}

// Patient returns an option for a client that fetches. When no byte of an answer has come on a connection which has had other
// answers, the client doubles its wait for such answers of that broker, up to four times the usual wait. A late answer leaves
// the wait as it is, and one in time resets it. A broker that answers nothing at all hangs: the wait for it does not grow.
func (c Connection) Patient() kgo.Opt {
	p := &patience{factor: make(map[question]int)}
	return kgo.Dialer(func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := c.dial(ctx, network, address)
		if patient, ok := conn.(*patientConn); ok {
			patient.patience, patient.address = p, address
		}
		return conn, err
	})
}

// of returns how many times longer to wait for an answer. nil is a patience that never grows.
func (p *patience) of(q question) int {
	if p == nil {
		return 1
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return max(1, p.factor[q])
}

// grow notes that there was no answer.
func (p *patience) grow(q question) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.factor[q] = min(2*max(1, p.factor[q]), mostPatience)
}

// reset notes that an answer was in time.
func (p *patience) reset(q question) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.factor, q)
}

// patientConn is a connection with a read deadline that moves on while bytes arrive. The client wants a whole answer until the
// deadline: over a slow network it would ask for the same large answer again and again, and never have it.
type patientConn struct {
	net.Conn
	patience *patience // nil if it does not grow
	address  string    // of the broker, for patience

	mu       sync.Mutex
	idle     time.Duration // guarded by mu: from the last bytes to the deadline; 0 if it does not move
	until    time.Time     // guarded by mu: when the client wants the first byte; 0 if it has come, or the client wants none
	answered bool          // guarded by mu: bytes have come
}

// SetReadDeadline sets the time until which the next bytes have to arrive, and how much later those behind them.
func (c *patientConn) SetReadDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.idle, c.until = 0, t; !t.IsZero() {
		c.idle = max(0, time.Until(t))
		t = t.Add(time.Duration(c.patience.of(c.question())-1) * c.idle)
	}
	return c.Conn.SetReadDeadline(t)
}

// question returns the asked question. It is called with mu held.
func (c *patientConn) question() question {
	return question{c.address, c.idle.Round(time.Second)}
}

// SetDeadline sets a deadline that does not move.
func (c *patientConn) SetDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.idle, c.until = 0, time.Time{}
	return c.Conn.SetDeadline(t)
}

func (c *patientConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.mu.Lock()
	defer c.mu.Unlock()
	if isOver := errors.Is(err, os.ErrDeadlineExceeded); !c.until.IsZero() && c.idle > 0 && (n > 0 || isOver) {
		switch {
		case n > 0 && time.Now().Before(c.until):
			c.patience.reset(c.question())
		case n == 0 && c.answered:
			c.patience.grow(c.question())
		}
		c.until = time.Time{}
	}
	c.answered = c.answered || n > 0
	if n > 0 && err == nil && c.idle > 0 {
		err = c.Conn.SetReadDeadline(time.Now().Add(c.idle))
	}
	return n, err
}
