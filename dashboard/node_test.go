package dashboard_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/taskengine/taskengine/bulk"
	"github.com/taskengine/taskengine/bulk/jobs"
	"github.com/taskengine/taskengine/dashboard"
	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/internal/access"
	"github.com/taskengine/taskengine/internal/logtest"
	"github.com/taskengine/taskengine/internal/redact"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/schedule"
	"github.com/taskengine/taskengine/schedule/scheduler"
	"github.com/taskengine/taskengine/server"
	"github.com/taskengine/taskengine/storage/memory"
	"github.com/taskengine/taskengine/task"
	"github.com/taskengine/taskengine/tasklog"
	"github.com/taskengine/taskengine/workflow"
	"github.com/taskengine/taskengine/workflow/runner"
)

// node is a node with a dashboard below /ui/.
type node struct {
	engine  *engine.Engine
	api     *server.API
	tokens  atomic.Pointer[access.Tokens]
	url     string // of the overview
	address string
	release chan struct{} // tasks of the type hold end when it is closed
	audit   *logtest.Buffer

	listener *server.Listener
}

// newNode starts a node that wants these tokens; none: everybody may do everything. The text of a token is its name.
func newNode(t testing.TB, tokens ...access.Token) *node {
	t.Helper()
	return newNodeAt(t, nil, tokens...)
}

// newNodeAt starts a node at which people can log in at an identity provider.
func newNodeAt(t testing.TB, login *dashboard.Login, tokens ...access.Token) *node {
	t.Helper()
	n := &node{release: make(chan struct{}), audit: new(logtest.Buffer)}
	hold := policy.DefaultType()
	hold.Concurrency = 1
	shared := policy.DefaultType()
	shared.Limits = []string{"partner"}
	log := tasklog.Open(tasklog.Options{AttemptLines: 100})
	t.Cleanup(func() { _ = log.Close() })
	metrics := server.NewMetrics([]string{"echo", "fail", "hold", "later"}, server.Build{Version: "v0"})
	held := task.HandlerFunc(func(ctx context.Context, t *task.Task) ([]byte, error) {
		task.Logger(ctx).Info("held <b>tight</b>", "attempt", t.Attempt)
		select {
		case <-n.release:
			return nil, nil
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	})
	var err error
	n.engine, err = engine.Open(t.Context(), engine.Config{
		Name: "n1", Store: memory.New(), TaskLog: log, Observer: server.Observers(metrics.Observer(), server.Ended(log.Ended)),
		Policies: policy.Set{Slots: 8, Limits: map[string]policy.Limit{"partner": {Name: "partner", Max: 1, Per: "payload.partner"}}, Types: map[string]policy.Type{
			"echo": policy.DefaultType(), "fail": policy.DefaultType(), "hold": hold, "shared": shared, "later": policy.DefaultType(), bulk.Type: jobs.TypePolicy(), workflow.Type: runner.TypePolicy(), schedule.Type: scheduler.TypePolicy(),
		}},
		Handlers: map[string]task.Handler{
			bulk.Type:     jobs.Handler(jobs.Config{Changed: server.ChangedByJobs(metrics, log.Ended)}),
			workflow.Type: runner.Handler,
			schedule.Type: scheduler.HandlerOf(nil),
			"echo":        task.HandlerFunc(func(_ context.Context, t *task.Task) ([]byte, error) { return t.Payload, nil }),
			"hold":        held, "shared": held,
			"fail": task.HandlerFunc(func(_ context.Context, t *task.Task) ([]byte, error) {
				return nil, task.Permanent(errors.New(string(t.Payload)))
			}),
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		close(n.release)
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := n.engine.Close(ctx); err != nil {
			t.Errorf("closing the engine: %v", err)
		}
	})
	watch, stop := context.WithCancel(t.Context())
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		metrics.WatchActivity(watch)
	}()
	t.Cleanup(func() {
		stop()
		<-watched
	})
	metrics.Watch(n.engine, nil)
	redaction, err := redact.ParseAll([]string{"payload.card"})
	if err != nil {
		t.Fatal(err)
	}
	conf := server.APIConfig{Engine: n.engine, Node: "n1", Metrics: metrics, TaskLog: log, Redaction: server.Redaction{"echo": redaction}, Audit: slog.New(slog.NewTextHandler(n.audit, nil))}
	if len(tokens) > 0 {
		for i := range tokens {
			tokens[i].Hash = access.HashOf(tokens[i].Name)
		}
		n.set(t, tokens...)
		conf.Tokens = n.tokens.Load
	}
	n.api = server.NewAPI(conf)
	n.api.Mount("/ui/", dashboard.New(dashboard.Config{Base: "/ui/", API: n.api.Handler, Node: "n1", Tokens: conf.Tokens, Login: login, Log: slog.New(slog.NewTextHandler(os.Stderr, nil))}))
	t.Cleanup(n.api.Drain)
	n.listen(t, "127.0.0.1:0")
	t.Cleanup(func() { n.stop() })
	return n
}

// set replaces the tokens.
func (n *node) set(t testing.TB, tokens ...access.Token) {
	t.Helper()
	all, err := access.NewTokens(tokens)
	if err != nil {
		t.Fatal(err)
	}
	n.tokens.Store(all)
}

// listen has the node serve an address.
func (n *node) listen(t testing.TB, address string) {
	t.Helper()
	l, err := server.Listen(t.Context(), server.ListenConfig{Address: address, Handler: n.api, GRPC: n.api.GRPC(), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	n.listener, n.address = l, l.Addr().String()
	n.url = "http://" + n.address + "/ui/"
}

// stop has the node serve nothing.
func (n *node) stop() {
	ctx, cancel := context.WithCancel(context.Background())
	cancel() // requests that go on are broken off
	_ = n.listener.Close(ctx)
}

// add adds a task, and returns its id.
func (n *node) add(t testing.TB, r task.Request) string {
	t.Helper()
	got, err := n.engine.Submit(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	return got[0].ID.String()
}

// call calls a method of the API with JSON, and returns the answer.
func (n *node) call(t testing.TB, method, body string) string {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+n.address+"/taskengine.v1.TaskService/"+method, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != 200 {
		t.Fatalf("%s gives %d: %s, %v", method, res.StatusCode, text, err)
	}
	return string(text)
}

// settled waits until a task has a state.
func (n *node) settled(t testing.TB, id string, state task.State) {
	t.Helper()
	parsed, err := task.ParseID(id)
	if err != nil {
		t.Fatal(err)
	}
	for begin := time.Now(); ; time.Sleep(time.Millisecond) {
		got, err := n.engine.Get(t.Context(), parsed)
		if err == nil && got.State == state {
			return
		}
		if time.Since(begin) > time.Minute {
			t.Fatalf("the task is %+v, %v", got, err)
		}
	}
}

func of(name string, role access.Role, types ...string) access.Token {
	return access.Token{Name: name, Roles: []access.Role{role}, Types: types}
}

// visitor is a browser without pictures and scripts.
type visitor struct {
	*http.Client
	n *node
}

// visit returns a visitor that has logged in with a token, or not if that is "".
func (n *node) visit(t testing.TB, token string) *visitor {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	v := &visitor{&http.Client{Jar: jar, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}, n}
	if token != "" {
		if code, said, _ := v.post(t, "login", url.Values{"token": {token}}); code != http.StatusSeeOther {
			t.Fatalf("logging in gives %d: %s", code, said)
		}
	}
	return v
}

// get returns a page.
func (v *visitor) get(t testing.TB, path string, headers ...string) (code int, body string, header http.Header) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, v.n.url+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	return v.send(t, r, headers...)
}

// post sends a form.
func (v *visitor) post(t testing.TB, path string, form url.Values, headers ...string) (code int, body string, header http.Header) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, v.n.url+path, strings.NewReader(form.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	return v.send(t, r, headers...)
}

func (v *visitor) send(t testing.TB, r *http.Request, headers ...string) (code int, body string, header http.Header) {
	t.Helper()
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
		if headers[i] == "Host" {
			r.Host = headers[i+1]
		}
	}
	res, err := v.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(text), res.Header
}

// within waits until something is so.
func within(t testing.TB, what string, is func() bool) {
	t.Helper()
	for begin := time.Now(); !is(); time.Sleep(2 * time.Millisecond) {
		if time.Since(begin) > time.Minute {
			t.Fatalf("no sign of %s after a minute", what)
		}
	}
}

// has fails the test unless a text has all of the given parts.
func has(t testing.TB, text string, parts ...string) {
	t.Helper()
	for _, p := range parts {
		if !strings.Contains(text, p) {
			t.Errorf("there is no %q in:\n%.2000s", p, text[max(0, strings.Index(text, "<main")):])
			return
		}
	}
}

// hasNot fails the test if a text has one of the given parts.
func hasNot(t testing.TB, text string, parts ...string) {
	t.Helper()
	for _, p := range parts {
		if strings.Contains(text, p) {
			at := strings.Index(text, p)
			t.Errorf("there is %q in:\n%s", p, text[max(0, at-500):min(len(text), at+500)])
			return
		}
	}
}
