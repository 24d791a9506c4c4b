package dashboard_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/url"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/taskengine/taskengine/alert"
	"github.com/taskengine/taskengine/dashboard"
	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/internal/access"
	"github.com/taskengine/taskengine/internal/browsertest"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/server"
	"github.com/taskengine/taskengine/storage/memory"
	"github.com/taskengine/taskengine/task"
	"github.com/taskengine/taskengine/timeslice"
	"github.com/taskengine/taskengine/timeslice/slicer"
)

// alerts are the alerts of a node in a test: one fires.
type alerts struct {
	mu       sync.Mutex
	silences []alert.Silence // guarded by mu
}

func (a *alerts) List(context.Context) (server.AlertList, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	one := &alert.Alert{Key: alert.Key{Rule: "old-tasks", Subject: "mail", Node: "n1"}, When: alert.Errors, Status: alert.Firing, Since: time.Now(), FiredAt: time.Now(), Value: 3, Detail: "<b>no</b>"}
	return server.AlertList{Alerts: []*alert.Alert{one}, Silences: append([]alert.Silence(nil), a.silences...)}, nil
}

func (a *alerts) Test(context.Context, []string) ([]server.AlertTest, error) { return nil, nil }

func (a *alerts) Silence(_ context.Context, s alert.Silence, length time.Duration) (alert.Silence, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	s.At = time.Now()
	s.ID, s.Until = fmt.Sprintf("s%d", len(a.silences)+1), s.At.Add(length)
	a.silences = append(a.silences, s)
	return s, nil
}

func (a *alerts) Unsilence(_ context.Context, id string) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	for i := range a.silences {
		if a.silences[i].ID == id {
			a.silences = append(a.silences[:i], a.silences[i+1:]...)
			return nil
		}
	}
	return server.ErrNoSilence
}

// newSliceNode starts a node with a source of time slices called orders with the platforms good and bad, and alerts. The
// slices of the platform bad fail until the returned value is true.
func newSliceNode(t testing.TB, tokens ...access.Token) (*node, *atomic.Bool) {
	t.Helper()
	n, heals := new(node), new(atomic.Bool)
	d := timeslice.Definition{Type: "fetch", Platforms: map[string]timeslice.Values{"good": {}, "bad": {}}}
	for name, text := range map[string]string{"interval": "1s", "retries": "0", "breaker": "1", "probe": "1h"} {
		if err := d.Values.Set(name, text); err != nil {
			t.Fatal(err)
		}
	}
	all, err := slicer.New(slicer.Config{Sources: map[string]timeslice.Definition{"orders": d}})
	if err != nil {
		t.Fatal(err)
	}
	handlers, set := all.Handlers(), policy.Set{Types: all.Policies()}
	maps.Copy(set.Types, map[string]policy.Type{
		"fetch": slicer.SlicePolicy(policy.DefaultType()), "echo": policy.DefaultType(),
	})
	maps.Copy(handlers, map[string]task.Handler{
		"echo": task.HandlerFunc(func(_ context.Context, t *task.Task) ([]byte, error) { return t.Payload, nil }),
		"fetch": slicer.Handler(task.HandlerFunc(func(_ context.Context, t *task.Task) ([]byte, error) {
			if t.Headers[timeslice.Header] == "orders/bad" && !heals.Load() {
				return nil, errors.New("the platform is down")
			}
			return nil, nil
		})),
	})
	if n.engine, err = engine.Open(t.Context(), engine.Config{Name: "n1", Store: memory.New(), Handlers: handlers, Policies: set}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := n.engine.Close(ctx); err != nil {
			t.Errorf("closing the engine: %v", err)
		}
	})
	if err := all.Apply(t.Context(), n.engine); err != nil {
		t.Fatal(err)
	}
	for begin, left := time.Now(), []string{"good", "bad"}; len(left) > 0; { // a task of the source adds them
		if _, err := all.Get(t.Context(), n.engine, timeslice.Platform{Source: "orders", Name: left[0]}); err == nil {
			left = left[1:]
		} else if time.Since(begin) > time.Minute {
			t.Fatalf("the platform %s is not added: %v", left[0], err)
		}
	}
	conf := server.APIConfig{Engine: n.engine, Node: "n1", Slices: all, Alerts: new(alerts)}
	if len(tokens) > 0 {
		for i := range tokens {
			tokens[i].Hash = access.HashOf(tokens[i].Name)
		}
		n.set(t, tokens...)
		conf.Tokens = n.tokens.Load
	}
	n.api = server.NewAPI(conf)
	n.api.Mount("/ui/", dashboard.New(dashboard.Config{Base: "/ui/", API: n.api.Handler, Node: "n1", Tokens: conf.Tokens, Log: slog.New(slog.NewTextHandler(os.Stderr, nil))}))
	t.Cleanup(n.api.Drain)
	n.listen(t, "127.0.0.1:0")
	t.Cleanup(func() { n.stop() })
	return n, heals
}

func TestASourceIsPausedRetriedAndResetByMouse(t *testing.T) {
	b := browsertest.Start(t)
	n, heals := newSliceNode(t)
	p := b.Open(t, n.url)
	p.Loads(func() { p.Click(`nav a[href="/ui/sources"]`) })
	p.Loads(func() { p.Click(`main a[href="/ui/slices/orders"]`) })
	p.Until(`document.querySelectorAll("#platforms tbody tr").length === 2`)
	p.Until(`document.querySelector("#pbad").innerText.includes("stopped")`)
	p.Loads(func() { p.Click(`#pbad a`) })
	if got := p.Text("#command"); got != "taskengine source show orders/bad" {
		t.Errorf("the command is %q", got)
	}
	p.Until(`document.querySelectorAll("#open tbody tr").length > 0 && document.querySelector("#settings").innerText.includes("interval")`)
	heals.Store(true)
	p.Loads(func() { p.Click(`form[action$="/retry"] button`) })
	p.Until(`!document.querySelector("h1").innerText.includes("stopped")`)
	p.Click("#reason")
	p.Type("for a while")
	p.Loads(func() { p.Click(`form[action$="/pause"] button`) })
	p.Until(`document.querySelector("#platform").innerText.includes("for a while")`)
	p.Click("#reset summary")
	p.Do(`document.querySelector("#to").value = "2026-01-02T03:04:05Z"`)
	p.Loads(func() { p.Click("#reset button") })
	p.Until(`document.querySelector("#platform time").dateTime.startsWith("2026-01-02T03:04:05")`)
	p.Until(`document.querySelector("#settings").innerText.includes("2026-01-02")`)
	p.Loads(func() { p.Click(`form[action$="/resume"] button`) })
	p.Until(`!document.querySelector("h1").innerText.includes("paused")`)
	if faults := p.Faults(); len(faults) > 0 {
		t.Errorf("the browser reports %q", faults)
	}
}

func TestAnAlertIsSilencedByMouse(t *testing.T) {
	b := browsertest.Start(t)
	n, _ := newSliceNode(t)
	p := b.Open(t, n.url)
	p.Loads(func() { p.Click(`nav a[href="/ui/alerts"]`) })
	p.Until(`document.querySelector("#alerts").innerText.includes("<b>no</b>")`)
	p.Loads(func() { p.Click("#alerts form[action$='/silence'] button") })
	p.Until(`document.querySelectorAll("#alerts form[action$='/unsilence']").length === 1 && document.querySelector("#alerts").innerText.includes("type=mail")`)
	p.Loads(func() { p.Click("#alerts form[action$='/unsilence'] button") })
	p.Until(`document.querySelectorAll("#alerts form[action$='/unsilence']").length === 0`)
	if faults := p.Faults(); len(faults) > 0 {
		t.Errorf("the browser reports %q", faults)
	}
}

func TestOrdersAboutAPlatformAreByTheRolesThatMay(t *testing.T) {
	n, _ := newSliceNode(t, of("view", access.View), of("manage", access.Manage), of("mail", access.View, "echo"))
	view, manage := n.visit(t, "view"), n.visit(t, "manage")
	code, body, _ := view.get(t, "slices/orders/good")
	if code != 200 {
		t.Errorf("the page gives %d: %.300s", code, body)
	}
	hasNot(t, body, `action="/ui/slices`)
	has(t, body, "taskengine source show orders/good")
	for order, form := range map[string]url.Values{"pause": {}, "resume": {}, "retry": {}, "reset": {"to": {"2026-01-02T03:04:05Z"}}} {
		if code, _, _ := view.post(t, "slices/orders/good/"+order, form); code != 403 {
			t.Errorf("%s gives a person who may only look %d", order, code)
		}
	}
	for _, form := range []url.Values{{"to": {"tomorrow"}}, {}, {"to": {"2026-01-02T03:04:05Z"}, "from": {"x"}}} {
		if code, body, _ := manage.post(t, "slices/orders/good/reset", form); code != 400 {
			t.Errorf("%v gives %d: %s", form, code, body)
		}
	}
	if code, body, _ := manage.post(t, "slices/orders/good/reset", url.Values{"to": {"2026-01-02T03:04:05Z"}, "from": {"2001-01-01T00:00:00Z"}}); code != 409 {
		t.Errorf("a reset of a cursor that has moved gives %d: %s", code, body)
	}
	if code, _, header := manage.post(t, "slices/orders/good/pause", nil); code != 303 || header.Get("Location") != "/ui/slices/orders/good" {
		t.Errorf("pausing gives %d, and leads to %s", code, header.Get("Location"))
	}
	if code, _, _ := manage.get(t, "slices/orders/nobody"); code != 404 {
		t.Errorf("a platform that is not there gives %d", code)
	}
	if code, _, _ := n.visit(t, "mail").get(t, "slices/orders/good"); code != 403 {
		t.Errorf("a token for one type gives %d", code)
	}
}

func TestAxeFindsNothingOnThePagesOfSources(t *testing.T) {
	b, axe := browsertest.Start(t), browsertest.NewAxe(t)
	n, _ := newSliceNode(t)
	p := b.Open(t, n.url+"slices/orders")
	p.Until(`document.querySelector("#pbad")?.innerText.includes("stopped")`)
	for scheme, width := range map[string]int{"light": 360, "dark": 1280} {
		p.Prefer("prefers-color-scheme", scheme)
		p.Resize(width, 900)
		for _, path := range []string{"sources", "slices/orders", "slices/orders/bad", "alerts"} {
			p.Go(n.url + path)
			checkPage(t, p, axe, path, width, scheme)
		}
	}
}
