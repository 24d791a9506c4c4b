//go:build unix

package handlers_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/taskengine/taskengine/handlers"
	"github.com/taskengine/taskengine/task"
)

// sending returns a handler that sends to a server which answers by answer.
func sending(t testing.TB, answer http.HandlerFunc, change ...func(*handlers.HTTPConfig)) *handlers.HTTP {
	t.Helper()
	server := httptest.NewServer(answer)
	t.Cleanup(server.Close)
	c := handlers.HTTPConfig{URL: server.URL, MaxResponse: 1 << 20, Timeout: patience}
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

func TestTheRequestCarriesTheTask(t *testing.T) {
	var got http.Header
	var method, body string
	h := sending(t, func(w http.ResponseWriter, r *http.Request) {
		content, _ := io.ReadAll(r.Body)
		got, method, body = r.Header.Clone(), r.Method, string(content)
		w.Write([]byte("the result"))
	}, func(c *handlers.HTTPConfig) {
		c.Headers = map[string]string{"authorization": "Bearer x", "User-Agent": "me"}
	})
	job := newTask("\x00\xff payload")
	job.Headers = map[string]string{"content-type": "text/plain", "traceparent": "00-1-2-01", "TraceState": "a=b", "other": "x"}
	result, err := h.Handle(t.Context(), job)
	if err != nil || string(result) != "the result" {
		t.Fatalf("got %q, %v", result, err)
	}
	if method != "POST" || body != "\x00\xff payload" {
		t.Errorf("got %s of %q", method, body)
	}
	want := http.Header{
		"Authorization": {"Bearer x"}, "User-Agent": {"me"}, "Content-Type": {"text/plain"}, "Content-Length": {"10"},
		"Traceparent": {"00-1-2-01"}, "Tracestate": {"a=b"},
		"Idempotency-Key":    {"0190a6f0-7c3e-7cc0-8b5e-3f1d2c4b5a69"},
		"Taskengine-Task-Id": {"0190a6f0-7c3e-7cc0-8b5e-3f1d2c4b5a69"},
		"Taskengine-Version": {"3"}, "Taskengine-Attempt": {"2"}, "Taskengine-Type": {"report"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("headers (-want +got)\n%s", diff)
	}
}

func TestTheAnswerSaysWhatToDoNext(t *testing.T) {
	now := time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC)
	in := func(d time.Duration, class string) task.Verdict {
		return task.Verdict{Outcome: task.Errored, Class: class, Delay: d, AtLeast: true}
	}
	retry := func(class string) task.Verdict { return task.Verdict{Outcome: task.Errored, Class: class, Delay: -1} }
	lost := func(v task.Verdict) task.Verdict { v.InDoubt = true; return v }
	never := func(class string) task.Verdict {
		return task.Verdict{Outcome: task.Errored, Class: class, Delay: -1, GiveUp: true}
	}
	for _, test := range []struct {
		code  int
		after string
		want  task.Verdict
	}{
		{200, "", task.Verdict{Outcome: task.Completed, Result: []byte("body")}},
		{202, "5", task.Verdict{Outcome: task.Completed, Result: []byte("body")}},
		{204, "", task.Verdict{Outcome: task.Completed, Result: []byte{}}},
		{301, "", never("http_301")},
		{304, "", never("http_304")},
		{400, "", never("http_400")},
		{404, "7", never("http_404")},
		{408, "", retry("http_408")},
		{409, "", never("http_409")},
		{425, "", retry("http_425")},
		{429, "7", in(7*time.Second, "http_429")},
		{429, "Mon, 04 May 2026 03:02:31 GMT", in(30*time.Second, "http_429")},
		{429, "Mon, 04 May 2020 03:02:31 GMT", in(0, "http_429")},
		{429, "Mon, 04 May 2036 03:02:31 GMT", in(24*time.Hour, "http_429")},
		{429, "99999999999999999999999", in(24*time.Hour, "http_429")},
		{429, "-7", retry("http_429")},
		{429, "soon", retry("http_429")},
		{500, "", retry("http_500")},
		{502, "7", lost(in(7*time.Second, "http_502"))},
		{503, "0", in(0, "http_503")},
		{504, "", lost(retry("http_504"))},
		{520, "", lost(retry("http_520"))},
		{521, "", retry("http_521")},
		{522, "", lost(retry("http_522"))},
		{524, "", lost(retry("http_524"))},
		{599, "", retry("http_599")},
	} {
		t.Run(fmt.Sprint(test.code, " ", test.after), func(t *testing.T) {
			h := sending(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header()["Date"] = nil
				if test.after != "" {
					w.Header().Set("Retry-After", test.after)
				}
				w.WriteHeader(test.code)
				if test.code != 204 && test.code != 304 {
					w.Write([]byte("body"))
				}
			}, func(c *handlers.HTTPConfig) { c.Now = func() time.Time { return now } })
			if diff := cmp.Diff(test.want, verdict(h.Handle(t.Context(), newTask("")))); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

func TestADateInRetryAfterIsByTheClockOfTheServer(t *testing.T) {
	now := time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC)
	h := sending(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Date", now.Format(http.TimeFormat))
		w.Header().Set("Retry-After", now.Add(time.Minute).Format(http.TimeFormat))
		w.WriteHeader(503)
	}, func(c *handlers.HTTPConfig) { c.Now = func() time.Time { return now.Add(10 * time.Minute) } })
	if got := verdict(h.Handle(t.Context(), newTask(""))); got.Delay != time.Minute {
		t.Errorf("after a response that asks for a minute, the handler is called again after %v", got.Delay)
	}
}

func TestTheErrorQuotesTheAnswerButNoSecret(t *testing.T) {
	h := sending(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(500)
		w.Write([]byte("  out of paper \xff" + strings.Repeat("x", 1<<20)))
	}, func(c *handlers.HTTPConfig) {
		c.URL = strings.Replace(c.URL, "http://", "http://user:s3cret@", 1) + "/path?token=s3cret"
	})
	_, err := h.Handle(t.Context(), newTask(""))
	if err == nil || strings.Contains(err.Error(), "s3cret") || !strings.Contains(err.Error(), "/path: answered 500 Internal Server Error: out of paper \uFFFD") ||
		len(err.Error()) > task.MaxErrorText {
		t.Errorf("got %v", err)
	}
}

func TestANetworkErrorIsRetriedAndTellsNoSecret(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	h := sending(t, nil, func(c *handlers.HTTPConfig) { c.URL = "http://user:s3cret@" + l.Addr().String() + "/x?token=s3cret" })
	_, err = h.Handle(t.Context(), newTask(""))
	if v := verdict(nil, err); v.GiveUp || v.Class != "network" {
		t.Errorf("got %+v", v)
	}
	if strings.Contains(err.Error(), "s3cret") || !strings.Contains(err.Error(), "connection refused") {
		t.Errorf("got %v", err)
	}
}

func TestAnAnswerThatBreaksOffIsRetried(t *testing.T) {
	h := sending(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "100")
		w.Write([]byte("half"))
	})
	if v := verdict(h.Handle(t.Context(), newTask(""))); v.Outcome != task.Errored || v.GiveUp || v.Class != "network" {
		t.Errorf("got %+v", v)
	}
}

func TestAnAnswerThatIsTooLargeIsAnErrorAndNotCut(t *testing.T) {
	for size, fits := range map[int]bool{10: true, 11: false, 5 << 20: false} {
		h := sending(t, func(w http.ResponseWriter, _ *http.Request) { w.Write(make([]byte, size)) },
			func(c *handlers.HTTPConfig) { c.MaxResponse = 10 })
		result, err := h.Handle(t.Context(), newTask(""))
		if v := task.VerdictOf(result, err); fits != (v.Outcome == task.Completed) || fits == v.GiveUp {
			t.Errorf("%d bytes give %+v", size, v)
		}
	}
}

func TestOnlyRedirectsThatKeepTheRequestAndTheServerAreFollowed(t *testing.T) {
	other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("the other server was sent %v", r.Header)
	}))
	defer other.Close()
	var seen bytes.Buffer
	var mu sync.Mutex
	h := func(path string) *handlers.HTTP {
		return sending(t, func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			mu.Lock()
			fmt.Fprintf(&seen, "%s %s %q %s\n", r.Method, r.URL.Path, body, r.Header.Get("Idempotency-Key")[:8])
			mu.Unlock()
			switch r.URL.Path {
			case "/307":
				http.Redirect(w, r, "/308", http.StatusTemporaryRedirect)
			case "/308":
				http.Redirect(w, r, "/end", http.StatusPermanentRedirect)
			case "/302":
				http.Redirect(w, r, "/end", http.StatusFound)
			case "/away":
				http.Redirect(w, r, other.URL, http.StatusTemporaryRedirect)
			case "/round":
				http.Redirect(w, r, "/round", http.StatusTemporaryRedirect)
			}
		}, func(c *handlers.HTTPConfig) { c.URL += path })
	}
	for path, wantClass := range map[string]string{"/307": "", "/302": "http_302", "/away": "http_307", "/round": "http_307"} {
		seen.Reset()
		v := verdict(h(path).Handle(t.Context(), newTask("payload")))
		if v.Class != wantClass || v.GiveUp != (wantClass != "") {
			t.Errorf("%s gives %+v", path, v)
		}
		steps := strings.Count(seen.String(), "\n")
		if strings.Count(seen.String(), `"payload" 0190a6f0`) != steps || steps > 4 {
			t.Errorf("%s: the server saw\n%s", path, seen.String())
		}
	}
}

// hanging answers nothing until the client goes away.
func hanging(begun chan<- struct{}) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body) // the server notices that the client is gone only after that
		w.Write([]byte("the beginning"))
		w.(http.Flusher).Flush()
		begun <- struct{}{}
		<-r.Context().Done()
	}
}

func TestARequestThatTakesTooLongIsRetried(t *testing.T) {
	begun := make(chan struct{}, 1)
	h := sending(t, hanging(begun), func(c *handlers.HTTPConfig) { c.Timeout = 50 * time.Millisecond })
	if v := verdict(h.Handle(t.Context(), newTask(""))); v.GiveUp || v.Class != "timeout" {
		t.Errorf("got %+v", v)
	}
}

func TestTheEndOfTheContextEndsTheRequest(t *testing.T) {
	begun := make(chan struct{}, 1)
	h := sending(t, hanging(begun))
	ctx, stop := context.WithCancelCause(t.Context())
	var err error
	var running sync.WaitGroup
	running.Go(func() { _, err = h.Handle(ctx, newTask("")) })
	<-begun
	stop(errStop)
	running.Wait()
	if v := verdict(nil, err); !errors.Is(err, errStop) || v.Class != "" {
		t.Errorf("got %v, %+v", err, v)
	}
}

func TestConnectionsAreUsedAgain(t *testing.T) {
	var mu sync.Mutex
	from := map[string]int{}
	h := sending(t, func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		from[r.RemoteAddr]++
		mu.Unlock()
		if r.Header.Get("Taskengine-Attempt") == "2" {
			w.WriteHeader(503)
		}
		w.Write([]byte("short"))
	})
	for i := range 20 {
		job := newTask("x")
		job.Attempt = uint32(i % 3)
		h.Handle(t.Context(), job)
	}
	if len(from) != 1 {
		t.Errorf("20 requests came from %v", from)
	}
}

func TestEachRequestHasAConnectionOfItsOwnIfThatIsWanted(t *testing.T) {
	var mu sync.Mutex
	from := map[string]int{}
	h := sending(t, func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		from[r.RemoteAddr]++
	}, func(c *handlers.HTTPConfig) { c.NewConnections = true })
	for range 5 {
		if _, err := h.Handle(t.Context(), newTask("x")); err != nil {
			t.Error(err)
		}
	}
	if len(from) != 5 {
		t.Errorf("5 requests came from %v", from)
	}
}

func TestWhatNoRequestCanBeIsRefused(t *testing.T) {
	for _, c := range []handlers.HTTPConfig{
		{URL: ""},
		{URL: "ftp://h"},
		{URL: "http://"},
		{URL: "http://user:s3cret@h:port"},
		{URL: "http://h", Method: "CONNECT"},
		{URL: "http://h", Method: "GET x"},
		{URL: "http://h", Timeout: -1},
		{URL: "http://h", MaxResponse: -1},
		{URL: "http://h", Headers: map[string]string{"a b": ""}},
		{URL: "http://h", Headers: map[string]string{"A": "b\nc"}},
		{URL: "http://h", Headers: map[string]string{"taskengine-type": "b"}},
		{URL: "http://h", Headers: map[string]string{"idempotency-key": "b"}},
	} {
		if _, err := handlers.NewHTTP(c); err == nil || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%+v gives %v", c, err)
		}
	}
	h := sending(t, func(http.ResponseWriter, *http.Request) { t.Error("a request was sent") })
	job := newTask("")
	job.Type = "a\nb"
	if v := verdict(h.Handle(t.Context(), job)); !v.GiveUp {
		t.Errorf("a type with a line break gives %+v", v)
	}
}

func TestHeadersOfTheTaskThatNoRequestCanHoldAreLeftOut(t *testing.T) {
	h := sending(t, func(w http.ResponseWriter, r *http.Request) { w.Write([]byte(r.Header.Get("Content-Type"))) })
	job := newTask("")
	job.Headers = map[string]string{"content-type": "text/plain\r\nX: y"}
	if result, err := h.Handle(t.Context(), job); err != nil || string(result) != "application/octet-stream" {
		t.Errorf("got %q, %v", result, err)
	}
}

func BenchmarkHTTP(b *testing.B) {
	h := sending(b, func(w http.ResponseWriter, r *http.Request) { io.Copy(w, r.Body) })
	job := newTask("payload")
	b.ReportAllocs()
	for b.Loop() {
		if _, err := h.Handle(b.Context(), job); err != nil {
			b.Fatal(err)
		}
	}
}
