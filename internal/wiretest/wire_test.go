package wiretest

import (
	"errors"
	"io"
	"net"
	"net/url"
	"os"
	"testing"
	"time"
)

// echo starts a server that sends requests back, and returns its URL.
func echo(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				_, _ = io.Copy(c, c)
			}()
		}
	}()
	return "tcp://" + l.Addr().String() + "/path?query"
}

func dial(t *testing.T, w *Wire) net.Conn {
	t.Helper()
	u, err := url.Parse(w.URL())
	if err != nil || u.Path != "/path" || u.RawQuery != "query" {
		t.Fatal(w.URL(), err)
	}
	c, err := net.Dial("tcp", u.Host)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func send(t *testing.T, c net.Conn, text string) {
	t.Helper()
	if _, err := c.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
}

// answers checks the answer.
func answers(t *testing.T, c net.Conn, want string) {
	t.Helper()
	_ = c.SetReadDeadline(time.Now().Add(time.Minute))
	got := make([]byte, len(want))
	if _, err := io.ReadFull(c, got); err != nil || string(got) != want {
		t.Fatalf("got %q, %v; want %q", got, err, want)
	}
}

// ends checks that a connection is ended.
func ends(t *testing.T, c net.Conn) {
	t.Helper()
	_ = c.SetReadDeadline(time.Now().Add(time.Minute))
	if n, err := c.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("read %d bytes, %v", n, err)
	}
}

func TestNothingArrivesWhileAWireIsStalledAndAllOfItAfterwards(t *testing.T) {
	w := New(t, echo(t))
	c := dial(t, w)
	send(t, c, "a")
	answers(t, c, "a")
	w.Stall()
	send(t, c, "b")
	late := dial(t, w)
	send(t, late, "c")
	for _, silent := range []net.Conn{c, late} {
		_ = silent.SetReadDeadline(time.Now().Add(20 * time.Millisecond))
		if n, err := silent.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("read %d bytes, %v", n, err)
		}
	}
	w.Resume()
	answers(t, c, "b")
	answers(t, late, "c")
}

func TestWhatWasSentDuringAStallArrivesThoughItsSenderHasHungUp(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	w := New(t, "tcp://"+l.Addr().String()+"/path?query")
	c := dial(t, w)
	server, err := l.Accept() // the wire has connected
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	w.Stall()
	send(t, c, "last words")
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	w.Resume()
	answers(t, server, "last words")
	ends(t, server)
}

func TestAHealedWireHasLostWhatWasSentDuringAStall(t *testing.T) {
	w := New(t, echo(t))
	c := dial(t, w)
	send(t, c, "a")
	answers(t, c, "a")
	w.Stall()
	send(t, c, "b")
	w.Heal()
	ends(t, c)
	c = dial(t, w)
	send(t, c, "c")
	answers(t, c, "c")
}

func TestACutWireEndsConnectionsAndRefusesNewOnesUntilItIsHealed(t *testing.T) {
	w := New(t, echo(t))
	c := dial(t, w)
	send(t, c, "a")
	answers(t, c, "a")
	w.Cut()
	ends(t, c)
	ends(t, dial(t, w))
	w.Heal()
	c = dial(t, w)
	send(t, c, "b")
	answers(t, c, "b")
}
