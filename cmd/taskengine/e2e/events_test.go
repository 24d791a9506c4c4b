//go:build !race

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/taskengine/taskengine/client"
)

// received has the keys of the tasks of the events that a reader or a hook has received.
type received struct {
	mu   sync.Mutex
	keys map[string]bool // guarded by mu
	gaps int             // guarded by mu
	lost []string        // guarded by mu: nodes that did not answer
}

func newReceived() *received { return &received{keys: make(map[string]bool)} }

func (h *received) has(keys ...string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return !slices.ContainsFunc(keys, func(key string) bool { return !h.keys[key] })
}

// followEvents reads events by a client for Go until the test ends, and returns the cursor then.
func followEvents(t *testing.T, r client.EventsRequest, addresses ...string) (h *received, stop func() (cursor string)) {
	t.Helper()
	c, err := client.Open(addresses, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	h = newReceived()
	ctx, cancel := context.WithCancel(t.Context())
	cursor, done := r.Cursor, make(chan struct{})
	go func() {
		defer close(done)
		for e, err := range c.Events(ctx, r) {
			if err != nil {
				if ctx.Err() == nil {
					t.Errorf("the events end: %v", err)
				}
				return
			}
			h.mu.Lock()
			switch {
			case e.Gap != nil:
				h.gaps++
			case e.Silent != nil:
				for _, s := range e.Silent {
					h.lost = append(h.lost, s.Node)
				}
			default:
				h.keys[e.Task.Key] = true
			}
			cursor = e.Cursor
			h.mu.Unlock()
		}
	}()
	stop = sync.OnceValue(func() string {
		cancel()
		<-done
		c.Close()
		return cursor
	})
	t.Cleanup(func() { stop() })
	return h, stop
}

// adds adds tasks with keys at a node, and returns the keys.
func (n *running) adds(t *testing.T, name string, tasks int) (keys []string) {
	t.Helper()
	for i := range tasks {
		keys = append(keys, fmt.Sprint(name, "-", i))
		n.ok(t, "task", "add", "copy", "--key", keys[i], "--data", "1")
	}
	return keys
}

// A reader of three nodes gets the events of all of them by one stream: also of one that is killed, of one that joins, and when its own node is
// killed.
func TestTheEventsOfACluster(t *testing.T) {
	t.Parallel()
	file := write(t, "taskengine.yaml", fmt.Sprintf("storage: %s\ncoordination: {lease: 3s}\nhandlers: {cat: {exec: [/bin/cat]}}\ntypes: {copy: {handler: cat}}\n", onPostgres(tables(t))))
	n := nodes(t, file, 3)
	request := client.EventsRequest{Where: "type=copy state=done", Cursor: "1h", CatchUp: true}
	h, stop := followEvents(t, request, n[0].api, n[1].api)
	var all []string
	expect := func(name string, at ...*running) {
		t.Helper()
		for i, one := range at {
			all = append(all, one.adds(t, fmt.Sprint(name, i), 5)...)
		}
		becomes(t, "reader that has the events of "+name, func() bool { return h.has(all...) })
	}
	expect("three nodes", n...)
	killed := n[2].adds(t, "killed", 5) // some may run elsewhere later
	n[2].signal(t, syscall.SIGKILL)
	all = append(all, killed...)
	expect("two nodes", n[0], n[1])
	joined := nodeOf(t, file, 3)
	expect("a node that has joined", n[0], n[1], joined)
	n[0].signal(t, syscall.SIGKILL) // the reader is there
	expect("another node", n[1], joined)
	request.Cursor = stop()
	late := joined.adds(t, "late", 5)
	h, _ = followEvents(t, request, joined.api)
	becomes(t, "reader that has gone on", func() bool { return h.has(late...) })
}

// taken is a receiver of a hook, which refuses until it is opened.
type taken struct {
	*received
	open    bool // guarded by mu
	refused int  // guarded by mu
}

func (r *taken) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	var b struct {
		Events []struct{ Task struct{ Key string } }
	}
	text, err := io.ReadAll(req.Body)
	if err == nil {
		err = json.Unmarshal(text, &b)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil || !r.open {
		r.refused++
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	for _, e := range b.Events {
		r.keys[e.Task.Key] = true
	}
}

// The events and the hooks of a node on each store: also of a node that was killed while its hook was refused.
func TestEventsAndHooksOutliveAKilledNode(t *testing.T) {
	t.Parallel()
	for _, driver := range []string{"pebble", "postgres"} {
		t.Run(driver, func(t *testing.T) {
			r := &taken{received: newReceived()}
			server := httptest.NewServer(r)
			defer server.Close()
			file := write(t, "taskengine.yaml", fmt.Sprintf("storage: %s\nhandlers: {cat: {exec: [/bin/cat]}}\ntypes: {copy: {handler: cat}}\non: {all: {where: type=copy state=done, url: %q}}\n", storageOf(t, driver), server.URL))
			n := nodeOf(t, file, 0)
			h, stop := followEvents(t, client.EventsRequest{Where: "type=copy state=done", Cursor: "1h", CatchUp: true}, n.api)
			before := n.adds(t, "before", 5)
			becomes(t, "reader that has the events", func() bool { return h.has(before...) })
			becomes(t, "hook that was refused", func() bool {
				r.mu.Lock()
				defer r.mu.Unlock()
				return r.refused > 0
			})
			cursor := stop()
			unread := n.adds(t, "unread", 5)
			n.signal(t, syscall.SIGKILL)
			n.exit(t)
			n = nodeOf(t, file, 0)
			h, _ = followEvents(t, client.EventsRequest{Where: "type=copy state=done", Cursor: cursor, CatchUp: true}, n.api)
			becomes(t, "reader that has the events from before", func() bool { return h.has(unread...) })
			after := n.adds(t, "after", 5)
			becomes(t, "reader that has the events from after", func() bool { return h.has(after...) })
			r.mu.Lock()
			r.open = true
			r.mu.Unlock()
			becomes(t, "hook that has posted all events", func() bool { return r.has(slices.Concat(before, unread, after)...) })
		})
	}
}

// The command shows the changes of both nodes, and the cursor of a line goes on at the other node.
func TestTheCommandShowsTheEventsOfAllNodes(t *testing.T) {
	t.Parallel()
	file := write(t, "taskengine.yaml", fmt.Sprintf("storage: %s\nhandlers: {cat: {exec: [/bin/cat]}}\ntypes: {copy: {handler: cat}}\n", onPostgres(tables(t))))
	n := nodes(t, file, 2)
	keys := append(n[0].adds(t, "a", 2), n[1].adds(t, "b", 2)...)
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	cmd := program(ctx, t, []string{"TASKENGINE_ADDRESS=" + n[0].api}, "events", "--since", "1h", "--where", "type=copy state=done", "-o", "json")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var seen []string
	for lines := json.NewDecoder(out); len(seen) < len(keys); {
		var line struct {
			Kind string
			Task struct{ Key string }
		}
		if err := lines.Decode(&line); err != nil {
			t.Fatalf("after %v: %v", seen, err)
		}
		if line.Kind == "task" && !slices.Contains(seen, line.Task.Key) {
			seen = append(seen, line.Task.Key)
		}
	}
	cancel()
	_ = cmd.Wait()
	slices.Sort(seen)
	if strings.Join(seen, " ") != strings.Join(keys, " ") {
		t.Errorf("the command shows %v, want %v", seen, keys)
	}
}
