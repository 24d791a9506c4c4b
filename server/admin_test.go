package server_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/taskengine/taskengine/server"
	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
	"github.com/taskengine/taskengine/storage"
)

// admin serves the admin listener of a node.
func admin(t *testing.T, h *server.Health, m *server.Metrics) *server.Listener {
	t.Helper()
	return listen(t, server.NewAdmin(server.AdminConfig{Health: h, Metrics: m, Build: server.Build{Version: "v0", Go: "go0"}}), true)
}

// get returns the response of a listener. host is the Host header, if not "".
func get(t *testing.T, l *server.Listener, path, host string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+l.Addr().String()+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Host = host
	res, err := httpClient(t, false).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(body)
}

func TestANodeIsReadyFromItsStartUntilItDrainsOrFails(t *testing.T) {
	starting := admin(t, new(server.Health), server.NewMetrics(nil, server.Build{}))
	if code, body := get(t, starting, "/readyz", ""); code != 503 || body != "[-] started: the node is starting\n" {
		t.Errorf("while it starts, the answer is %d: %s", code, body)
	}
	if code, body := get(t, starting, "/livez", ""); code != 200 || body != "ok\n" {
		t.Errorf("while it starts, it is alive with %d: %s", code, body)
	}

	n := newNode(t)
	n.handlers = []server.HandlerStatus{{Name: "a", Up: true}, {Name: "b", Detail: "exit status 3"}}
	l := admin(t, n.health, n.metrics)
	if code, body := get(t, l, "/readyz", ""); code != 200 || body != "ok\n" {
		t.Errorf("with a handler that is down, the answer is %d: %s", code, body)
	}
	want := "[+] started: ok\n[+] accepting: ok\n[+] engine: ok\n[+] member: ok\n[+] handler a: ok\n[-] handler b: takes no tasks: exit status 3\n[+] locks: ok\n"
	if code, body := get(t, l, "/readyz?verbose", ""); code != 200 || body != want {
		t.Errorf("in detail, the answer is %d: %s", code, body)
	}
	n.health.Draining()
	if code, body := get(t, l, "/readyz", ""); code != 503 || body != "[-] accepting: the node is stopping\n" {
		t.Errorf("while it stops, the answer is %d: %s", code, body)
	}
	if code, _ := get(t, l, "/livez", ""); code != 200 {
		t.Errorf("while it stops, it is alive with %d", code)
	}

	broken := newNode(t)
	l = admin(t, broken.health, broken.metrics)
	broken.store.broken.Store(true)
	if _, err := broken.client(t).Submit(t.Context(), &taskenginev1.SubmitRequest{Tasks: []*taskenginev1.NewTask{{Type: "echo"}}}); err == nil {
		t.Error("a broken store took a task")
	}
	<-broken.engine.Failed()
	if code, body := get(t, l, "/readyz", ""); code != 503 || !strings.HasPrefix(body, "[-] engine: ") {
		t.Errorf("after a failure, the answer is %d: %s", code, body)
	}
}

func TestSessionsThatKeepLocksAreNamed(t *testing.T) {
	n := newNode(t)
	l := admin(t, n.health, n.metrics)
	if code, body := get(t, l, "/readyz?verbose", ""); code != 200 || !strings.Contains(body, "[+] locks: ok\n") {
		t.Errorf("while no session keeps locks: %d %s", code, body)
	}
	n.store.blocker.Store(&storage.Blocker{PID: 7, Application: "shop", State: "idle in transaction", Since: time.Now().Add(-time.Minute)})
	if code, body := get(t, l, "/readyz?verbose", ""); code != 200 || !strings.Contains(body, "[-] locks: session 7 (shop, idle in transaction, in its transaction since ") {
		t.Errorf("while a session keeps locks: %d %s", code, body)
	}
	if code, body := get(t, l, "/readyz", ""); code != 200 || strings.Contains(body, "session 7") {
		t.Errorf("without verbose: %d %s", code, body)
	}
	if _, body := get(t, l, "/metrics", ""); !strings.Contains(body, "\ntaskengine_blocking_sessions 1\n") || !strings.Contains(body, "\ntaskengine_lock_waits 0\n") {
		t.Error("the metrics do not count it")
	}
	n.store.blocker.Store(&storage.Blocker{PID: 7, Since: time.Now()}) // transactions of programs take a moment
	if _, body := get(t, l, "/readyz?verbose", ""); !strings.Contains(body, "[+] locks: ok\n") {
		t.Errorf("while a transaction has just begun: %s", body)
	}
}

func TestTheAdminListenerShowsTheProcess(t *testing.T) {
	n := newNode(t)
	l := admin(t, n.health, n.metrics)
	for path, says := range map[string]string{
		"/metrics":                       "taskengine_build_info{",
		"/version":                       `{"version":"v0","go":"go0"}`,
		"/debug/vars":                    `"memstats"`,
		"/debug/pprof/":                  "goroutine",
		"/debug/pprof/cmdline":           "server.test",
		"/debug/pprof/goroutine?debug=1": "goroutine profile",
		"/debug/pprof/symbol":            "num_symbols",
	} {
		if code, body := get(t, l, path, ""); code != 200 || !strings.Contains(body, says) {
			t.Errorf("%s answers %d: %.200s", path, code, body)
		}
	}
	_, vars := get(t, l, "/debug/vars", "")
	if !json.Valid([]byte(vars)) {
		t.Errorf("/debug/vars is no JSON: %.100s", vars)
	}
	if code, _ := get(t, l, "/", ""); code != 404 {
		t.Errorf("/ answers %d", code)
	}
}

func TestAListenerOnLoopbackIsClosedToWebPages(t *testing.T) {
	n := newNode(t)
	l := admin(t, n.health, n.metrics)
	for host, want := range map[string]int{
		"localhost:7421": 200, "LOCALHOST": 200, "node.localhost": 200, "127.0.0.1:1": 200, "[::1]:7421": 200,
		"evil.example": 403, "evil.example:7421": 403, "localhost.evil.example": 403, "10.0.0.1": 403, "127.0.0.1.evil.example": 403,
	} {
		if code, body := get(t, l, "/livez", host); code != want {
			t.Errorf("called %s, the admin listener answers %d: %s", host, code, body)
		}
	}
	for name, c := range map[string]struct {
		host   string
		header map[string]string
		want   int
	}{
		"a program that calls it by some name":   {"engine.internal", nil, 200},
		"a page of this machine":                 {"localhost:1", map[string]string{"Origin": "http://localhost:1"}, 200},
		"a page of another origin":               {"localhost:1", map[string]string{"Origin": "http://evil.example"}, 403},
		"a page of another site":                 {"localhost:1", map[string]string{"Sec-Fetch-Site": "cross-site"}, 403},
		"a page that made the name its own":      {"evil.example:1", map[string]string{"Origin": "http://evil.example:1"}, 403},
		"a same-origin page with a made up name": {"evil.example:1", map[string]string{"Sec-Fetch-Site": "same-origin"}, 403},
	} {
		t.Run(name, func(t *testing.T) {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost,
				"http://"+n.api.Addr().String()+"/taskengine.v1.TaskService/Version", strings.NewReader("{}"))
			if err != nil {
				t.Fatal(err)
			}
			req.Host = c.host
			req.Header.Set("Content-Type", "application/json")
			for k, v := range c.header {
				req.Header.Set(k, v)
			}
			res, err := httpClient(t, false).Do(req)
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			if res.StatusCode != c.want {
				t.Errorf("the answer is %d, want %d", res.StatusCode, c.want)
			}
		})
	}
	if res, err := httpClient(t, false).Get("http://" + n.api.Addr().String() + "/taskengine.v1.TaskService/ListTypes?encoding=json&message={}"); err != nil {
		t.Error(err)
	} else if res.Body.Close(); res.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("a page can GET from the API: %d", res.StatusCode)
	}
}

func TestClosingAListenerWaitsForItsRequestsUntilTheContextEnds(t *testing.T) {
	entered, leave := make(chan struct{}), make(chan struct{})
	l, err := server.Listen(t.Context(), server.ListenConfig{Address: "127.0.0.1:0", Log: discard, Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		close(entered)
		<-r.Context().Done()
		close(leave)
	})})
	if err != nil {
		t.Fatal(err)
	}
	if !l.Loopback() {
		t.Errorf("%v is not taken for loopback", l.Addr())
	}
	answered := make(chan error, 1)
	go func() {
		res, err := httpClient(t, false).Get("http://" + l.Addr().String())
		if err == nil {
			res.Body.Close()
		}
		answered <- err
	}()
	<-entered
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := l.Close(ctx); err == nil || !strings.Contains(err.Error(), "broken off") {
		t.Errorf("closing returned %v", err)
	}
	<-leave
	<-l.Ended()
	if err := <-answered; err == nil {
		t.Error("the request was answered")
	}
	_, err = server.Listen(t.Context(), server.ListenConfig{Address: takenAddress(t), Log: discard})
	if err == nil || !strings.Contains(err.Error(), "listen on ") {
		t.Errorf("an address that is taken gives %v", err)
	}
}

// takenAddress returns an address that is in use.
func takenAddress(t *testing.T) string {
	return listen(t, http.NotFoundHandler(), false).Addr().String()
}
