package hooks_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/taskengine/taskengine/cmd/taskengine/internal/hooks"
	"github.com/taskengine/taskengine/config"
	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/storage/bolt"
	"github.com/taskengine/taskengine/task"
)

// body is a request to the receiver.
type body struct {
	ID, Hook string
	Events   []struct {
		ID        string
		FromStore bool `json:"from_store"`
		Task      struct{ ID, State, Key, Error string }
	}
}

// receiver is a server that refuses requests while it is closed for them.
type receiver struct {
	*httptest.Server
	mu      sync.Mutex
	refuses bool                // guarded by mu
	refused []string            // guarded by mu: the ids of requests
	events  map[string][]string // guarded by mu: by key, the ids of events, with + for those from the store
	auth    string              // guarded by mu
}

func newReceiver(t *testing.T) *receiver {
	r := &receiver{events: make(map[string][]string)}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		var b body
		text, err := io.ReadAll(req.Body)
		if err == nil {
			err = json.Unmarshal(text, &b)
		}
		if err != nil || b.ID == "" || req.Header.Get("Idempotency-Key") != b.ID || b.Hook != "errors" {
			t.Errorf("a request: %s, %v", text, err)
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.refuses {
			r.refused = append(r.refused, b.ID)
			http.Error(w, "not now", http.StatusServiceUnavailable)
			return
		}
		r.auth = req.Header.Get("Authorization")
		for _, e := range b.Events {
			id := e.ID
			if e.FromStore {
				id += "+"
			}
			if e.Task.State != "error" || e.Task.Error != "no" {
				t.Errorf("an event: %+v", e)
			}
			r.events[e.Task.Key] = append(r.events[e.Task.Key], id)
		}
	}))
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) set(refuses bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.refuses = refuses
}

// until waits until is holds.
func (r *receiver) until(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		r.mu.Lock()
		ok := is()
		r.mu.Unlock()
		switch {
		case ok:
			return
		case time.Now().After(end):
			t.Fatalf("%s: the events are %v, refused were %v", what, r.events, r.refused)
		}
	}
}

// node is an engine with a hook for errors.
type node struct {
	*engine.Engine
	store storage.Store
	hooks *hooks.Hooks
}

func open(t *testing.T, dir, url string) *node {
	t.Helper()
	store, err := bolt.Open(filepath.Join(dir, "tasks"), bolt.Options{})
	if err != nil {
		t.Fatal(err)
	}
	n := &node{store: store}
	n.Engine, err = engine.Open(t.Context(), engine.Config{
		Store: store, Policies: policy.Set{Slots: 10, Types: map[string]policy.Type{"x": policy.DefaultType()}},
		Handlers: map[string]task.Handler{"x": task.HandlerFunc(func(_ context.Context, tk *task.Task) ([]byte, error) {
			if tk.Key == "fine" {
				return nil, nil
			}
			return nil, task.Permanent(errors.New("no"))
		})},
	})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "taskengine.yaml")
	text := "handlers: {x: {exec: [/bin/true]}}\ntypes: {x: {}}\non: {errors: {where: state=error, url: \"" + url + "\", headers: {Authorization: secret}}}\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := config.Load(file, nil, os.LookupEnv)
	if err != nil {
		t.Fatal(err)
	}
	n.hooks = hooks.Start(hooks.Config{Hooks: c.On, Node: "n1", Engine: n.Engine, Store: store, Log: slog.New(slog.DiscardHandler)})
	return n
}

func (n *node) close(t *testing.T) {
	t.Helper()
	n.hooks.Stop()
	if err := errors.Join(n.Close(context.Background()), n.store.Close()); err != nil {
		t.Fatal(err)
	}
}

func (n *node) run(t *testing.T, key string) {
	t.Helper()
	receipts, err := n.Submit(t.Context(), engine.Request{Type: "x", Key: key})
	if err == nil {
		err = n.WaitTasks(t.Context(), receipts[0].ID)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestAHookPostsWhatItsFilterSelectsUntilItIsAccepted(t *testing.T) {
	to := newReceiver(t)
	n := open(t, t.TempDir(), to.URL)
	defer n.close(t)
	n.run(t, "fine")
	n.run(t, "a")
	to.until(t, "an error", func() bool { return len(to.events["a"]) > 0 })
	to.set(true)
	n.run(t, "b")
	to.until(t, "it refuses", func() bool { return len(to.refused) > 1 })
	if c := n.hooks.Counts()["errors"]; c.Posted == 0 || c.Failed == 0 || c.Lost != 0 || c.Behind == 0 {
		t.Errorf("the counts are %+v", c)
	}
	to.set(false)
	to.until(t, "the same again", func() bool { return len(to.events["b"]) > 0 && to.refused[0] == to.refused[1] && to.auth == "secret" })
	if len(to.events["fine"]) > 0 {
		t.Error("an event that the filter does not select")
	}
}

func TestEventsThatANodeCouldNotPostArePostedByTheNext(t *testing.T) {
	to, dir := newReceiver(t), t.TempDir()
	n := open(t, dir, to.URL)
	n.run(t, "a")
	to.until(t, "an error", func() bool { return len(to.events["a"]) > 0 })
	to.set(true)
	n.run(t, "b")
	to.until(t, "it refuses", func() bool { return len(to.refused) > 0 })
	n.run(t, "c")
	n.close(t)
	to.set(false)
	n = open(t, dir, to.URL)
	defer n.close(t)
	to.until(t, "after a restart", func() bool { return len(to.events["b"]) > 0 && len(to.events["c"]) > 0 })
	n.run(t, "d")
	to.until(t, "live again", func() bool { return len(to.events["d"]) > 0 })
}

// The node that is killed is a process of this test, too.
func TestEventsOfANodeThatWasKilledArePosted(t *testing.T) {
	if url := os.Getenv("HOOKS_TEST_URL"); url != "" {
		n := open(t, os.Getenv("HOOKS_TEST_DIR"), url)
		n.run(t, "killed")
		select {}
	}
	to, dir := newReceiver(t), t.TempDir()
	to.set(true)
	cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.timeout=5m")
	cmd.Env = append(os.Environ(), "HOOKS_TEST_URL="+to.URL, "HOOKS_TEST_DIR="+dir)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	to.until(t, "it refuses", func() bool { return len(to.refused) > 0 })
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	to.set(false)
	n := open(t, dir, to.URL)
	defer n.close(t)
	to.until(t, "after the kill", func() bool { return len(to.events["killed"]) > 0 })
}
