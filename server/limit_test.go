package server_test

import (
	"bufio"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/taskengine/taskengine/server"
)

// saidLines are the lines of a log, each of which is sent to heard.
type saidLines struct {
	mu    sync.Mutex
	all   []string // guarded by mu
	heard chan struct{}
}

func (s *saidLines) Write(p []byte) (int, error) {
	s.mu.Lock()
	s.all = append(s.all, string(p))
	s.mu.Unlock()
	s.heard <- struct{}{}
	return len(p), nil
}

// ask gets a page on a connection that stays open.
func ask(t *testing.T, c net.Conn) {
	t.Helper()
	if _, err := fmt.Fprintf(c, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, res.Body); err != nil || res.StatusCode != http.StatusOK {
		t.Fatal(res.Status, err)
	}
}

// The test opens as many connections as are allowed. The next one is served when one of them ends, and one line is logged.
func TestAListenerLimitsItsConnectionsAndLogsThat(t *testing.T) {
	said := &saidLines{heard: make(chan struct{}, 10)}
	l, err := server.Listen(t.Context(), server.ListenConfig{
		Address: "127.0.0.1:0", MaxConnections: 2, Log: slog.New(slog.NewTextHandler(said, nil)),
		Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "here") }),
	})
	if err != nil {
		t.Fatal(err)
	}
	dial := func() net.Conn {
		c, err := new(net.Dialer).DialContext(t.Context(), "tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
	first, second := dial(), dial()
	ask(t, first)
	ask(t, second)
	<-said.heard
	for range 3 {
		third := dial() // waits in the operating system
		if err := first.Close(); err != nil {
			t.Fatal(err)
		}
		ask(t, third)
		first = third
	}
	ask(t, second)
	fourth := dial()
	if err := l.Close(t.Context()); err != nil { // though it is full
		t.Error(err)
	}
	fourth.Close()
	said.mu.Lock()
	defer said.mu.Unlock()
	if len(said.all) != 1 || !strings.Contains(said.all[0], "connections=2") || !strings.Contains(said.all[0], "LimitNOFILE") {
		t.Errorf("it logs %q", said.all)
	}
}
