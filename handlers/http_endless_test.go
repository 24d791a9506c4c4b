//go:build unix

package handlers_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/taskengine/taskengine/handlers"
	"github.com/taskengine/taskengine/task"
)

// endless serves a connection by beginning an answer and repeating a piece of it for ever.
func endless(begun chan<- struct{}, beginning, piece string) func(net.Conn) {
	return func(c net.Conn) {
		if _, err := receive(bufio.NewReader(c)); err != nil {
			return
		}
		io.WriteString(c, beginning)
		begun <- struct{}{}
		for {
			if _, err := io.WriteString(c, piece); err != nil {
				return
			}
			time.Sleep(time.Millisecond) // it is slow, not fast, that is endless
		}
	}
}

// endlessAnswers do not end within their headers, body or trailers.
var endlessAnswers = map[string]struct{ beginning, piece string }{
	"headers":           {"HTTP/1.1 200 OK\r\n", "X"},
	"a body":            {"HTTP/1.1 200 OK\r\n\r\n", "x"},
	"a body of chunks":  {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "1\r\nx\r\n"},
	"a size of a chunk": {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", ""},
	"trailers":          {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X\r\n\r\n0\r\nX: ", "x"},
	"informing":         {"HTTP/1.1 103 Early Hints\r\n\r\n", ""},
	"an error":          {"HTTP/1.1 503 Busy\r\n\r\n", ""},
}

func TestAnAnswerWithoutAnEndEndsWithTheContext(t *testing.T) {
	for name, answer := range endlessAnswers {
		t.Run(name, func(t *testing.T) {
			begun := make(chan struct{}, 8)
			h := to(t, "http://"+rawServer(t, endless(begun, answer.beginning, answer.piece)), func(c *handlers.HTTPConfig) {
				c.Timeout, c.MaxResponse = 0, 1<<30
			})
			ctx, stop := context.WithCancelCause(t.Context())
			var err error
			var running sync.WaitGroup
			running.Go(func() { _, err = h.Handle(ctx, newTask("payload")) })
			<-begun
			stop(errStop)
			running.Wait()
			if v := task.VerdictOf(nil, err); v.Class != "http_503" && (!errors.Is(err, errStop) || !v.InDoubt) {
				t.Errorf("got %v, %+v", err, v)
			}
		})
	}
}

func TestAnAnswerWithoutAnEndEndsWithTheTimeout(t *testing.T) {
	for name, answer := range endlessAnswers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := to(t, "http://"+rawServer(t, endless(make(chan struct{}, 8), answer.beginning, answer.piece)), func(c *handlers.HTTPConfig) {
				c.Timeout, c.MaxResponse = 3*time.Second, 1<<30 // in which a busy machine sends a request
			})
			_, err := h.Handle(t.Context(), newTask("payload"))
			if v := task.VerdictOf(nil, err); v.Class != "timeout" && v.Class != "http_503" || v.InDoubt != (v.Class == "timeout") {
				t.Errorf("got %v, %+v", err, v)
			}
		})
	}
}

func TestARedirectWithoutAnEndEndsWithTheTimeout(t *testing.T) {
	const redirect = "HTTP/1.1 307 See there\r\nLocation: /there\r\nContent-Length: 4000\r\n\r\n"
	h := to(t, "http://"+rawServer(t, endless(make(chan struct{}, 8), redirect, "")), func(c *handlers.HTTPConfig) {
		c.Timeout = 50 * time.Millisecond
	})
	_, err := h.Handle(t.Context(), newTask("payload"))
	if v := task.VerdictOf(nil, err); v.Class != "timeout" {
		t.Errorf("got %v, %+v", err, v)
	}
}

func TestAnAnswerOfAnotherProtocolIsAnErrorAtOnce(t *testing.T) {
	for name, upgrade := range map[string]string{"": "", "with an upgrade": "Connection: Upgrade\r\nUpgrade: websocket\r\n"} {
		t.Run(name, func(t *testing.T) {
			begun := make(chan struct{}, 1)
			h := to(t, "http://"+rawServer(t, endless(begun, "HTTP/1.1 101 Switching Protocols\r\n"+upgrade+"\r\n", "")),
				func(c *handlers.HTTPConfig) { c.Timeout = 0 })
			_, err := h.Handle(t.Context(), newTask("payload"))
			if v := task.VerdictOf(nil, err); !v.GiveUp || v.Class != "http_101" || !strings.Contains(v.Error, "101 Switching Protocols") {
				t.Errorf("got %+v", v)
			}
		})
	}
}
