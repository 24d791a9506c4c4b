//go:build !race

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/taskengine/taskengine/client"
	"github.com/taskengine/taskengine/internal/wiretest"
)

// lateConfig makes a node with a task that its worker ends by itself when its time is over, and one that is done at once.
const lateConfig = `
storage: {driver: memory}
handlers: {note: {remote: {}}}
types:
  late: {handler: note, delivery: at_most_once, timeout: {run: 2s}, retry: {max: 5, backoff: none}}
  shout: {handler: note, timeout: {run: 50s}}
`

// fakedClock returns the environment of a program that sees another time than the machine does. It skips the test where
// the library for that is missing.
func fakedClock(t *testing.T, ahead string) []string {
	t.Helper()
	libraries, _ := filepath.Glob("/usr/lib/*/faketime/libfaketime.so.1") // no bad pattern
	if len(libraries) == 0 {
		t.Skip("libfaketime is not installed")
	}
	return []string{"LD_PRELOAD=" + libraries[0], "FAKETIME=" + ahead, "DONT_FAKE_MONOTONIC=1", "FAKETIME_DONT_FAKE_MONOTONIC=1"}
}

// The time of an attempt does not depend on the clock of its worker: a clock that is ahead does not end it early, and an
// attempt that the worker ends by itself is in doubt, so that a task of at_most_once does not run again.
func TestTheClockOfAWorkerDoesNotMatter(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		launch launcher
		ahead  string
	}{
		"python, a little ahead": {startPythonWorker, "+0.3s"},
		"python, far ahead":      {startPythonWorker, "+90s"},
		"python, far behind":     {startPythonWorker, "-90s"},
		"node, a little ahead":   {startNodeJSWorker, "+0.3s"},
		"node, far ahead":        {startNodeJSWorker, "+90s"},
		"node, far behind":       {startNodeJSWorker, "-90s"},
		"go, exact":              {startWorker, ""},
		"java, exact":            {startJavaWorker, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			journal := filepath.Join(t.TempDir(), "journal")
			env, ahead := []string{"JOURNAL=" + journal}, time.Duration(0)
			if c.ahead != "" {
				env = append(env, fakedClock(t, c.ahead)...)
				ahead, _ = time.ParseDuration(c.ahead) // a test's own constant
			}
			n := start(t, nil, "run", "-c", write(t, "taskengine.yaml", lateConfig))
			c.launch(t, n.api, env...).awaitConnected(t)
			late := fmt.Sprint(n.objects(t, "task", "add", "late")[0]["id"])
			n.until(t, addShout(t, n), "done")
			if got := n.until(t, late, "error"); fmt.Sprint(got["attempt"]) != "1" {
				t.Errorf("the late task is %v", got)
			}
			if text, err := os.ReadFile(journal); err != nil || string(text) != "late "+late+"\n" {
				t.Errorf("the handler was called for %q, %v", text, err)
			}
			shown, err := time.ParseDuration(fmt.Sprint(n.objects(t, "worker", "list")[0]["clock_ahead"]))
			if off := shown - ahead; err != nil || off.Abs() > 30*time.Second {
				t.Errorf("the clock of the worker is shown as %v ahead, want about %v; %v", shown, ahead, err)
			}
		})
	}
}

// frozenConfig makes a node that gives the tasks of a silent worker to another soon.
const frozenConfig = `
storage: {driver: memory}
handlers: {note: {remote: {reconnect: 2s, liveness: %s, slots: 16}}}
types:
  least: {handler: note, retry: {max: 100, backoff: none}}
  most: {handler: note, delivery: at_most_once}
`

// A worker that stands still for longer than its node waits begins no task that it finds in its connection when it goes
// on: the node has given these tasks to others, and an operator may have resumed them.
func TestAWorkerThatWasFrozenBeginsNothing(t *testing.T) {
	t.Parallel()
	for name, launch := range map[string]launcher{"go": startWorker, "python": startPythonWorker, "node": startNodeJSWorker, "java": startJavaWorker} {
		t.Run(name+", silent", func(t *testing.T) {
			t.Parallel()
			testFrozen(t, launch, "15s", false)
		})
		t.Run(name+", cut off", func(t *testing.T) {
			t.Parallel()
			testFrozen(t, launch, "1h", true)
		})
	}
}

// testFrozen freezes a worker that has tasks, until its node has given them away: because it was silent for its
// liveness, or because the connection broke.
func testFrozen(t *testing.T, launch launcher, liveness string, cut bool) {
	t.Helper()
	folder := t.TempDir()
	first, second := filepath.Join(folder, "first"), filepath.Join(folder, "second")
	n := start(t, nil, "run", "-c", write(t, "taskengine.yaml", fmt.Sprintf(frozenConfig, liveness)))
	c, err := client.Open([]string{n.api}, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	network := wiretest.New(t, "tcp://"+n.api)
	frozen := launch(t, strings.TrimPrefix(network.URL(), "tcp://"), "JOURNAL="+first)
	frozen.awaitConnected(t)
	add := func(types ...string) []client.Receipt {
		t.Helper()
		var requests []client.Request
		for _, typ := range types {
			r, err := client.New(typ, nil)
			if err != nil {
				t.Fatal(err)
			}
			requests = append(requests, r)
		}
		added, err := c.SubmitAll(t.Context(), requests...)
		if err != nil {
			t.Fatal(err)
		}
		return added
	}
	warm := add("least")[0].ID.String() // connects, too
	n.until(t, warm, "done")
	frozen.signal(t, syscall.SIGSTOP)
	added := add("least", "least", "least", "most", "most", "most") // all at once: the worker is soon given up
	var least, most []string
	for i, a := range added {
		if i < 3 {
			least = append(least, a.ID.String())
		} else {
			most = append(most, a.ID.String())
		}
	}
	if cut {
		for _, id := range slices.Concat(least, most) {
			n.until(t, id, "processing")
		}
		network.Cut()
	}
	for _, id := range most {
		n.until(t, id, "error")
	}
	launch(t, n.api, "JOURNAL="+second).awaitConnected(t)
	for _, id := range most {
		n.ok(t, "task", "resume", id)
	}
	for _, id := range slices.Concat(least, most) {
		n.until(t, id, "done")
	}
	if cut {
		network.Heal()
	}
	frozen.signal(t, syscall.SIGCONT)
	frozen.saysOften(t, "connected to the node", 2) // after it has read the rest of its connection
	if text, err := os.ReadFile(first); err != nil || string(text) != "least "+warm+"\n" {
		t.Errorf("the worker that was frozen ran %q, %v", text, err)
	}
	for id, runs := range readJournal(t, second) {
		if runs != 1 {
			t.Errorf("%s ran %d times", id, runs)
		}
	}
}
