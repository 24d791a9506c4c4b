package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"
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

// The time of an attempt does not depend on the clock of its worker: one that is ahead does not end it early, and what it
// ends by itself is in doubt, so that a task of at_most_once does not run again.
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
			shown, ok := n.objects(t, "worker", "list")[0]["clock_ahead_ms"].(float64)
			if off := time.Duration(shown)*time.Millisecond - ahead; !ok || off.Abs() > 30*time.Second {
				t.Errorf("the clock of the worker is shown as %v ms ahead, want about %v", shown, ahead)
			}
		})
	}
}
