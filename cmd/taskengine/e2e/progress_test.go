//go:build !race

package e2e

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

func TestProgressIsShownAndACheckpointOutlivesTheAttempt(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	open := newGate(t)
	file := write(t, "taskengine.yaml", fmt.Sprintf(`
storage: {driver: pebble, path: data}
handlers: {scanner: {plugin: [%q], env: {%s: plugin, SCAN: %q}}}
types: {scan: {handler: scanner, retry: {backoff: none}}}
`, self, role, string(open)))
	n := start(t, nil, "run", "-c", file)
	id := n.objects(t, "task", "add", "scan")[0]["id"].(string)
	var shown object
	for begin := time.Now(); shown["progress"] == nil || shown["checkpoint"] == nil; time.Sleep(askEvery) {
		if shown = n.objects(t, "task", "get", id)[0]; time.Since(begin) > limit {
			t.Fatalf("the task shows no progress: %v", shown)
		}
	}
	p := shown["progress"].(map[string]any)
	if p["done"] != 30.0 || p["total"] != 100.0 || p["message"] != "pages" || shown["state"] != "processing" {
		t.Errorf("while it runs it is %v", shown)
	}
	if text := n.ok(t, "task", "get", id); !strings.Contains(text, "30 of 100 (30 %), pages, at ") || !strings.Contains(text, "9 bytes for the next attempt") {
		t.Errorf("for people it is\n%s", text)
	}
	open.open(t)
	n.ok(t, "task", "wait", id)
	if got := n.objects(t, "task", "get", id)[0]; got["result"] != "page 30" || got["attempt"] != 2.0 || got["checkpoint"] != nil {
		t.Errorf("at the end it is %v", got)
	}
}
