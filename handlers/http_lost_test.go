//go:build unix

package handlers_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/handlers"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/storage/memory"
	"github.com/taskengine/taskengine/task"
)

// rawServer is a server that a function serves each connection of, and returns its address.
func rawServer(t testing.TB, serve func(net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	var mu sync.Mutex
	var open []net.Conn // guarded by mu
	running.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			open = append(open, c)
			mu.Unlock()
			running.Go(func() {
				defer c.Close()
				serve(c)
			})
		}
	})
	t.Cleanup(func() {
		l.Close()
		mu.Lock()
		for _, c := range open {
			c.Close()
		}
		mu.Unlock()
		running.Wait()
	})
	return l.Addr().String()
}

// receive reads one request of a connection to its end.
func receive(in *bufio.Reader) (*http.Request, error) {
	r, err := http.ReadRequest(in)
	if err == nil {
		_, err = io.Copy(io.Discard, r.Body)
	}
	return r, err
}

// answers returns what serves a connection by writing one of each to each request, and then
// closes it. It counts the requests that were received.
func answers(received *atomic.Int32, each ...string) func(net.Conn) {
	return func(c net.Conn) {
		in := bufio.NewReader(c)
		for _, answer := range each {
			if _, err := receive(in); err != nil {
				return
			}
			received.Add(1)
			io.WriteString(c, answer)
		}
	}
}

func to(t testing.TB, url string, change ...func(*handlers.HTTPConfig)) *handlers.HTTP {
	t.Helper()
	c := handlers.HTTPConfig{URL: url, MaxResponse: 1 << 20, Timeout: patience}
	for _, f := range change {
		f(&c)
	}
	h, err := handlers.NewHTTP(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.Close)
	return h
}

const okAnswer = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

func TestARequestIsSentOnce(t *testing.T) {
	for _, method := range []string{"POST", "PUT", "PATCH", "DELETE", "GET", "HEAD", "OPTIONS", "TRACE", "PURGE"} {
		for _, payload := range []string{"", "payload"} {
			for _, reset := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s %q reset=%v", method, payload, reset), func(t *testing.T) {
					var received atomic.Int32
					first := strings.TrimSuffix(okAnswer, "ok")
					if method != "HEAD" {
						first = okAnswer
					}
					h := to(t, "http://"+rawServer(t, func(c net.Conn) {
						answers(&received, first, "")(c)
						if tcp := c.(*net.TCPConn); reset {
							tcp.SetLinger(0)
						}
					}), func(c *handlers.HTTPConfig) { c.Method = method })
					var v task.Verdict
					sent := 0
					for ; sent < 2 && v.Outcome == task.Completed; sent++ {
						v = task.VerdictOf(h.Handle(t.Context(), newTask(payload)))
					}
					if payload != "" && (v.Outcome != task.Errored || !v.InDoubt || v.Class != "network") {
						t.Errorf("got %+v, want an error in doubt", v)
					}
					if n := int(received.Load()); n != sent {
						t.Errorf("%d requests reached the server, want %d", n, sent)
					}
				})
			}
		}
	}
}

// refuses is the address of no server. A port that was free a moment ago may be that of another test.
const refuses = "127.0.0.1:1"

func TestOfNoAnswerOnlyWhatCannotHaveReachedTheServerIsCertain(t *testing.T) {
	hangs := func(c net.Conn) { io.Copy(io.Discard, c) }
	says := func(each ...string) string { return "http://" + rawServer(t, answers(new(atomic.Int32), each...)) }
	for name, test := range map[string]struct {
		url, class string
		doubt      bool
		timeout    time.Duration
	}{
		"the server refuses the connection":         {"http://" + refuses, "network", false, patience},
		"no TLS is spoken":                          {"https://" + rawServer(t, func(net.Conn) {}), "network", false, patience},
		"TLS takes too long":                        {"https://" + rawServer(t, hangs), "timeout", false, 50 * time.Millisecond},
		"the connection ends without an answer":     {says(""), "network", true, patience},
		"the answer is none of HTTP":                {says("hello\r\n\r\n"), "network", true, patience},
		"the answer takes too long":                 {"http://" + rawServer(t, hangs), "timeout", true, 50 * time.Millisecond},
		"the answer breaks off in the headers":      {says("HTTP/1.1 200 OK\r\nContent-Le"), "network", true, patience},
		"the answer breaks off in the body":         {says("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf"), "network", true, patience},
		"the answer breaks off between chunks":      {says("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n"), "network", true, patience},
		"the gateway has no answer":                 {says("HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n"), "http_502", true, patience},
		"the gateway has no answer in time":         {says("HTTP/1.1 504 Gateway Timeout\r\nContent-Length: 0\r\n\r\n"), "http_504", true, patience},
		"the server is not available":               {says("HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n"), "http_503", false, patience},
		"the second server does not answer at all":  {says("HTTP/1.1 307 See there\r\nLocation: /there\r\nContent-Length: 0\r\n\r\n", ""), "network", true, patience},
		"the second connection cannot be made":      {redirectsOnce(t), "network", false, patience},
		"a continue is no answer":                   {says("HTTP/1.1 100 Continue\r\n\r\n"), "network", true, patience},
		"the server's own error is an answer":       {says("HTTP/1.1 500 Oh\r\nContent-Length: 0\r\n\r\n"), "http_500", false, patience},
		"an error with half of a body is an answer": {says("HTTP/1.1 500 Oh\r\nContent-Length: 9\r\n\r\nhalf"), "http_500", false, patience},
	} {
		t.Run(name, func(t *testing.T) {
			ask := func(timeout time.Duration) task.Verdict {
				h := to(t, test.url, func(c *handlers.HTTPConfig) { c.Timeout = timeout })
				return task.VerdictOf(h.Handle(t.Context(), newTask("payload")))
			}
			v := ask(test.timeout)
			for timeout := test.timeout; v.Class == "timeout" && test.doubt && !v.InDoubt && timeout < patience; v = ask(timeout) {
				timeout *= 4 // the machine was too slow to send the request
			}
			if v.Outcome != task.Errored || v.GiveUp || v.Class != test.class || v.InDoubt != test.doubt {
				t.Errorf("got %+v, want class %s, in doubt: %v", v, test.class, test.doubt)
			}
		})
	}
}

// redirectsOnce is the URL of a server that sends its only client elsewhere on itself, and
// is gone then.
func redirectsOnce(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		c, err := l.Accept()
		l.Close()
		if err != nil {
			return
		}
		defer c.Close()
		if _, err := receive(bufio.NewReader(c)); err == nil {
			io.WriteString(c, "HTTP/1.1 308 See there\r\nLocation: /there\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
		}
	}()
	t.Cleanup(func() { l.Close(); <-done })
	return "http://" + l.Addr().String()
}

func TestTheEndOfTheContextIsADoubtOnlyOnceTheRequestWasSent(t *testing.T) {
	got := make(chan struct{}, 1)
	for scheme, doubt := range map[string]bool{"http": true, "https": false} {
		address := rawServer(t, func(c net.Conn) {
			c.Read(make([]byte, 1))
			got <- struct{}{}
			io.Copy(io.Discard, c)
		})
		h := to(t, scheme+"://"+address)
		ctx, stop := context.WithCancelCause(t.Context())
		var err error
		var running sync.WaitGroup
		running.Go(func() { _, err = h.Handle(ctx, newTask("payload")) })
		<-got
		stop(errStop)
		running.Wait()
		if v := task.VerdictOf(nil, err); !errors.Is(err, errStop) || v.InDoubt != doubt {
			t.Errorf("%s: got %v, %+v", scheme, err, v)
		}
	}
}

func TestARequestWithoutAnAnswerIsNotRepeatedIfItMayRunAtMostOnce(t *testing.T) {
	var received, answered atomic.Int32
	silent := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		received.Add(1)
		<-r.Context().Done()
	}))
	defer silent.Close()
	urls := map[string]string{
		"breaks": "http://" + rawServer(t, answers(&received, "")), "silent": silent.URL, "refuses": "http://" + refuses,
		"busy": "http://" + rawServer(t, answers(&answered, "HTTP/1.1 503 Busy\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")),
	}
	set := policy.Set{Slots: 10, Types: make(map[string]policy.Type)}
	byType := make(map[string]task.Handler)
	for typ, url := range urls {
		p := policy.DefaultType()
		p.Delivery, p.Retry = policy.AtMostOnce, policy.Retry{Max: 3, Backoff: policy.Backoff{Kind: policy.None}}
		set.Types[typ] = p
		byType[typ] = to(t, url, func(c *handlers.HTTPConfig) {
			if typ == "silent" {
				c.Timeout = 2 * time.Second // in which a busy machine sends the request
			}
		})
	}
	e, err := engine.Open(t.Context(), engine.Config{Store: memory.New(), Policies: set, Handlers: byType})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close(context.Background())
	for typ, attempts := range map[string]int{"breaks": 1, "silent": 1, "refuses": 3, "busy": 3} {
		receipts, err := e.Submit(t.Context(), engine.Request{Type: typ, Payload: []byte("10 EUR")})
		if err != nil {
			t.Fatal(err)
		}
		if err := e.WaitTasks(t.Context(), receipts[0].ID); err != nil {
			t.Fatal(err)
		}
		row, err := e.Get(t.Context(), receipts[0].ID)
		if err != nil {
			t.Fatal(err)
		}
		doubt := strings.Contains(row.LastError, "may have taken effect")
		if row.State != task.Error || int(row.Attempt) != attempts || doubt != (attempts == 1) {
			t.Errorf("%s: %v after %d attempts: %s", typ, row.State, row.Attempt, row.LastError)
		}
	}
	if received.Load() != 2 || answered.Load() != 3 {
		t.Errorf("the servers received %d requests without an answer, and %d with one", received.Load(), answered.Load())
	}
}
