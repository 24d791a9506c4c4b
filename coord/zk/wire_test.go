package zk

import (
	"errors"
	"net"
	"testing"
)

// broken is a connection on which each write but the first fails.
type broken struct {
	net.Conn
	writes int
	closed bool
}

func (b *broken) Write(p []byte) (int, error) {
	if b.writes++; b.writes > 1 {
		return 0, errors.New("broken pipe")
	}
	return len(p), nil
}

func (b *broken) Close() error {
	b.closed = true
	return nil
}

// The library answers a request twice if its write fails, and so it only learns by reading that the connection is closed.
func TestAWriteThatFailsClosesTheConnection(t *testing.T) {
	for _, auth := range [][]byte{nil, []byte("user")} {
		raw := new(broken)
		w := &wire{Conn: raw, auth: auth}
		for i := range 3 {
			if n, err := w.Write([]byte("request")); n != len("request") || err != nil {
				t.Errorf("write %d: %d, %v", i, n, err)
			}
			if raw.closed != (i > 0) {
				t.Errorf("after write %d the connection is closed: %v", i, raw.closed)
			}
		}
	}
}

func TestAFirstWriteThatFailsIsAnError(t *testing.T) {
	w := &wire{Conn: &broken{writes: 1}}
	if _, err := w.Write([]byte("a session")); err == nil {
		t.Error("it does not fail")
	}
}
