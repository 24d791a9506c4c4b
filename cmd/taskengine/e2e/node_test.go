package e2e

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// gate is a file that the tasks of type hold wait for. A shell waits without asking again and again: beside the file there
// is a pipe, which a program can open for reading when the gate is open, until the test ends.
type gate string

func newGate(t *testing.T) gate {
	t.Helper()
	g := gate(filepath.Join(t.TempDir(), "open"))
	if err := syscall.Mkfifo(g.pipe(), 0o600); err != nil {
		t.Fatal(err)
	}
	return g
}

func (g gate) pipe() string { return string(g) + ".pipe" }

func (g gate) open(t *testing.T) {
	t.Helper()
	if err := os.WriteFile(string(g), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	pipe, err := os.OpenFile(g.pipe(), os.O_RDWR, 0) // for writing only it would wait for a reader
	if errors.Is(err, os.ErrNotExist) {
		return
	} else if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { pipe.Close() })
}

// awaitFile waits until a file is there.
func awaitFile(t *testing.T, path string) {
	t.Helper()
	for begin := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		if _, err := os.Stat(path); err == nil {
			return
		}
		if time.Since(begin) > limit {
			t.Fatalf("there is no file %s", path)
		}
	}
}

// settings returns the configuration of the tests: tasks of type copy return their
// payload, tasks of type hold wait for the gate, one at a time, and tasks of type fail
// fail.
func settings(t *testing.T, driver string, g gate) string {
	return settingsFor(t, storageOf(t, driver), g)
}

func settingsFor(t *testing.T, storage string, g gate) string {
	return write(t, "taskengine.yaml", fmt.Sprintf(`
node: {slots: 10, drain_timeout: 50s}
storage: %s
handlers:
  copy: {exec: [/bin/cat]}
  hold: {exec: [/bin/sh, -c, 'true < "$GATE.pipe"; echo '' "held"'''], env: {GATE: %q}, grace: 100ms}
  fail: {exec: [/bin/sh, -c, 'echo sorry >&2; exit 65']}
types:
  copy: {}
  hold: {concurrency: 1}
  fail: {}
`, storage, string(g)))
}

// storageOf returns the storage of a configuration. A database of its own is ready for use.
func storageOf(t *testing.T, driver string) string {
	if driver != "postgres" {
		return fmt.Sprintf("{driver: %s, path: ./data}", driver)
	}
	return onPostgres(tables(t))
}

func TestANodeRunsTasksAndTellsAboutThem(t *testing.T) {
	t.Parallel()
	for _, driver := range []string{"pebble", "bolt", "memory", "postgres"} {
		t.Run(driver, func(t *testing.T) {
			g := newGate(t)
			n := start(t, nil, "run", "-c", settings(t, driver, g))

			id := n.ok(t, "task", "add", "copy", "--data", `{"n": 12345678901234567890}`, "--key", "k1", "--header", "a=b=c", "--priority", "2", "--ordering-key", "o")
			n.ok(t, "task", "wait", id, "--timeout", "1m")
			got := n.objects(t, "task", "get", id)[0]
			for field, want := range map[string]any{
				"id": id, "type": "copy", "state": "done", "version": 3.0, "attempt": 1.0, "crashes": 0.0, "priority": 2.0,
				"key": "k1", "ordering_key": "o",
			} {
				if got[field] != want {
					t.Errorf("%s is %v, want %v", field, got[field], want)
				}
			}
			if text := n.ok(t, "task", "get", id, "-o", "json"); !strings.Contains(text, `"result":{"n":12345678901234567890}`) || !strings.Contains(text, `"headers":{"a":"b=c"}`) {
				t.Errorf("the task is %s", text)
			}
			if again := n.objects(t, "task", "add", "copy", "--key", "k1", "--ordering-key", "o")[0]; again["id"] != id || again["created"] != false {
				t.Errorf("a second task with the key gives %v", again)
			}

			held, behind := n.ok(t, "task", "add", "hold"), n.ok(t, "task", "add", "hold")
			n.until(t, held, "processing")
			why := n.objects(t, "task", "why", behind)[0]["reasons"].([]any)[0].(map[string]any)
			if why["code"] != "limit" || why["used"] != 1.0 || why["max"] != 1.0 || why["holders"].([]any)[0] != held {
				t.Errorf("why says %v", why)
			}
			if text := n.ok(t, "task", "why", behind); !strings.Contains(text, "1 of 1 used") || !strings.Contains(text, "held by "+held) {
				t.Errorf("why says %s", text)
			}
			n.ok(t, "task", "cancel", behind, "--reason", "not needed")
			if got := n.objects(t, "task", "get", behind)[0]; got["state"] != "cancelled" || got["error"] != "not needed" {
				t.Errorf("the cancelled task is %v", got)
			}
			g.open(t)
			n.ok(t, "task", "wait", "--type", "hold", "--timeout", "1m")

			counts := n.objects(t, "task", "count")
			want := []object{{"type": "copy", "state": "done", "count": 1.0}, {"type": "hold", "state": "cancelled", "count": 1.0}, {"type": "hold", "state": "done", "count": 1.0}}
			if fmt.Sprint(counts) != fmt.Sprint(want) {
				t.Errorf("the counts are %v", counts)
			}
			if list := n.objects(t, "task", "list", "--type", "hold", "--state", "done"); len(list) != 1 || list[0]["id"] != held || list[0]["result"] != nil {
				t.Errorf("the list is %v", list)
			}
			n.signal(t, syscall.SIGTERM)
			if code := n.exit(t); code != 0 {
				t.Errorf("the node ended with %d", code)
			}
		})
	}
}

func TestAFailureHasAnErrorAndIsAcknowledged(t *testing.T) {
	t.Parallel()
	n := start(t, nil, "run", "-c", settings(t, "memory", newGate(t)))
	r := n.cli(t, "task", "add", "fail", "--wait", "--timeout", "1m", "-o", "json")
	if r.code != 1 || !strings.Contains(r.stderr, "is error") {
		t.Errorf("waiting for a failure ends with %d: %s", r.code, r.stderr)
	}
	got := parse(t, r.stdout)[0]
	if got["state"] != "error" || !strings.Contains(got["error"].(string), "sorry") {
		t.Errorf("the task is %v", got)
	}
	n.says(t, `"level":"INFO","msg":"a task failed and needs a person"`)
	id, version := got["id"].(string), fmt.Sprint(got["version"])
	if r := n.cli(t, "task", "fail", id, "--version", "1"); r.code != 5 || !strings.Contains(r.stderr, "version "+version) {
		t.Errorf("a stale version ends with %d: %s", r.code, r.stderr)
	}
	if got := n.objects(t, "task", "fail", id, "--version", version, "--reason", "seen"); got[0]["state"] != "failed" {
		t.Errorf("the acknowledged task is %v", got)
	}
	if r := n.cli(t, "task", "cancel", id); r.code != 6 {
		t.Errorf("cancelling a failed task ends with %d: %s", r.code, r.stderr)
	}
	if got := n.objects(t, "task", "resume", id); got[0]["version"].(float64) <= got[0]["attempt"].(float64) {
		t.Errorf("the resumed task is %v", got)
	}
}

func TestTimesAndPausesAreObeyed(t *testing.T) {
	t.Parallel()
	n := start(t, nil, "run", "-c", settings(t, "memory", newGate(t)))
	id := n.ok(t, "task", "add", "copy", "--in", "2d")
	if got := n.objects(t, "task", "get", id)[0]; got["state"] != "waiting" || got["next_event_at"] == nil {
		t.Errorf("a task for later is %v", got)
	}
	if r := n.cli(t, "task", "wait", id, "--timeout", "100ms"); r.code != 7 || !strings.Contains(r.stderr, "is waiting") {
		t.Errorf("waiting in vain ends with %d: %s", r.code, r.stderr)
	}
	if got := n.objects(t, "task", "reschedule", id, "--at", "2099-01-02T03:04:05+02:00"); got[0]["next_event_at"] != "2099-01-02T01:04:05Z" {
		t.Errorf("the rescheduled task is %v", got)
	}
	n.ok(t, "type", "pause", "copy")
	n.ok(t, "task", "resume", id)
	if types := n.ok(t, "type", "list", "-o", "json"); !strings.Contains(types, `{"name":"copy","configured":true,"handled":true,"paused":true,"running":0,`) {
		t.Errorf("the types are %s", types)
	}
	if why := n.objects(t, "task", "why", id)[0]["reasons"].([]any)[0].(map[string]any); why["code"] != "paused" {
		t.Errorf("why says %v", why)
	}
	n.ok(t, "type", "resume", "copy")
	n.ok(t, "task", "wait", id, "--timeout", "1m")
}

func TestAPauseOutlivesTheNode(t *testing.T) {
	t.Parallel()
	for _, driver := range []string{"pebble", "bolt", "postgres"} {
		t.Run(driver, func(t *testing.T) {
			file := settings(t, driver, newGate(t))
			n := start(t, nil, "run", "-c", file)
			n.ok(t, "type", "pause", "copy")
			id := n.ok(t, "task", "add", "copy")
			n.signal(t, syscall.SIGTERM)
			n.exit(t)
			n = start(t, nil, "run", "-c", file)
			if why := n.objects(t, "task", "why", id)[0]["reasons"].([]any)[0].(map[string]any); why["code"] != "paused" {
				t.Errorf("after a restart why says %v", why)
			}
			n.ok(t, "type", "resume", "copy")
			n.ok(t, "task", "wait", id, "--timeout", "1m")
		})
	}
}

func TestATermSignalLetsRunningTasksFinish(t *testing.T) {
	t.Parallel()
	for name, s := range map[string]syscall.Signal{"SIGTERM": syscall.SIGTERM, "SIGINT": syscall.SIGINT} {
		t.Run(name, func(t *testing.T) {
			g := newGate(t)
			file := settings(t, "pebble", g)
			n := start(t, nil, "run", "-c", file)
			running, waiting := n.ok(t, "task", "add", "hold"), n.ok(t, "task", "add", "hold")
			n.until(t, running, "processing")
			n.signal(t, s)
			n.says(t, "stopping")
			if r := n.cli(t, "task", "add", "copy"); r.code != 7 {
				t.Errorf("a node that stops takes a task: %d, %s", r.code, r.stdout)
			}
			if code, _ := n.readiness(t); code != http.StatusServiceUnavailable {
				t.Errorf("a node that stops is ready: %d", code)
			}
			n.until(t, running, "processing") // readers are answered all the while
			g.open(t)
			if code := n.exit(t); code != 0 {
				t.Errorf("the node ended with %d", code)
			}
			n = start(t, nil, "run", "-c", file)
			if got := n.objects(t, "task", "get", running)[0]; got["state"] != "done" || got["attempt"] != 1.0 {
				t.Errorf("the task that ran is %v", got)
			}
			n.ok(t, "task", "wait", waiting, "--timeout", "1m")
		})
	}
}

func TestASecondSignalEndsTheNodeAtOnceAndLosesNothing(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		signal syscall.Signal
		code   int
	}{"SIGTERM": {syscall.SIGTERM, 143}, "SIGINT": {syscall.SIGINT, 130}} {
		t.Run(name, func(t *testing.T) {
			g := newGate(t)
			file := settings(t, "pebble", g)
			n := start(t, nil, "run", "-c", file)
			id := n.ok(t, "task", "add", "hold")
			n.until(t, id, "processing")
			n.signal(t, c.signal)
			n.says(t, "stopping")
			n.signal(t, c.signal)
			if code := n.exit(t); code != c.code {
				t.Errorf("the node ended with %d, want %d", code, c.code)
			}
			g.open(t)
			n = start(t, nil, "run", "-c", file)
			n.ok(t, "task", "wait", id, "--timeout", "1m")
		})
	}
}

func TestAKilledNodeLosesNothing(t *testing.T) {
	t.Parallel()
	g := newGate(t)
	file := settings(t, "pebble", g)
	n := start(t, nil, "run", "-c", file)
	id, queued := n.ok(t, "task", "add", "hold"), n.ok(t, "task", "add", "hold")
	n.until(t, id, "processing")
	n.signal(t, syscall.SIGKILL)
	n.exit(t)
	g.open(t)
	n = start(t, nil, "run", "-c", file)
	n.ok(t, "task", "wait", id, queued, "--timeout", "1m")
}

func TestANodeThatRestartsIsWaitedFor(t *testing.T) {
	g := newGate(t)
	file := settings(t, "pebble", g)
	n := start(t, nil, "run", "-c", file)
	waited := make(chan result, 1)
	go func() { waited <- n.cli(t, "task", "add", "hold", "--wait", "--timeout", "1m", "-o", "json") }()
	var list []object
	for ; len(list) == 0; time.Sleep(askEvery) {
		list = n.objects(t, "task", "list", "--state", "processing")
	}
	n.signal(t, syscall.SIGKILL)
	n.exit(t)
	g.open(t)
	startAt(t, n.api, nil, "run", "-c", file)
	r := <-waited
	if r.code != 0 || parse(t, r.stdout)[0]["state"] != "done" {
		t.Errorf("the wait ended with %d: %s%s", r.code, r.stdout, r.stderr)
	}
}

// configOf returns the file that a node was started with.
func configOf(n *running) string {
	for i, arg := range n.cmd.Args {
		if arg == "-c" {
			return n.cmd.Args[i+1]
		}
	}
	return ""
}

func TestPluginsAndHTTPHandlersRunTasks(t *testing.T) {
	t.Parallel()
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || r.Header.Get("Authorization") != "Bearer hush" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		fmt.Fprintf(w, "got %s", body)
	}))
	defer web.Close()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	file := write(t, "taskengine.yaml", fmt.Sprintf(`
storage: {driver: memory}
handlers:
  loud: {plugin: [%q], env: {%s: plugin}}
  web: {http: {url: %q, headers: {Authorization: "${TOKEN}"}}}
types:
  shout: {handler: loud}
  web: {}
`, self, role, web.URL))
	n := start(t, []string{"TOKEN=Bearer hush"}, "run", "-c", file)
	if got := n.objects(t, "task", "add", "shout", "--data", `"hey"`, "--wait")[0]; got["result"] != "HEY" {
		t.Errorf("the plugin gives %v", got)
	}
	if got := n.objects(t, "task", "add", "web", "--data", `1`, "--wait")[0]; got["result_base64"] != "Z290IDE=" {
		t.Errorf("the web handler gives %v", got)
	}
	if _, body := n.readiness(t); !strings.Contains(body, "[+] handler loud: ok") {
		t.Errorf("the node is ready with %s", body)
	}
	n.signal(t, syscall.SIGTERM)
	if code := n.exit(t); code != 0 {
		t.Errorf("the node ended with %d", code)
	}
}

func TestDevHasSamplesAndForgets(t *testing.T) {
	t.Parallel()
	n := start(t, nil, "dev")
	if got := n.objects(t, "task", "add", "echo", "--data", `[1]`, "--wait"); fmt.Sprint(got[0]["result"]) != "[1]" {
		t.Errorf("echo gives %v", got)
	}
	if got := n.objects(t, "task", "add", "sleep", "--data", `{"for":"1ms"}`, "--wait"); got[0]["state"] != "done" {
		t.Errorf("sleep gives %v", got)
	}
	if r := n.cli(t, "task", "add", "fail", "--data", `{"times":"x"}`, "--wait"); r.code != 1 {
		t.Errorf("fail ends with %d", r.code)
	}
	if entries, err := os.ReadDir(n.cmd.Dir); err != nil || len(entries) != 0 {
		t.Errorf("dev leaves %v behind, %v", entries, err)
	}
}
