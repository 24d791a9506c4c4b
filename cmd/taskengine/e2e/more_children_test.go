package e2e

import (
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// childSet returns the children of the task with the key k, nil if there is no such task.
func (n *running) childSet(t *testing.T) map[string]any {
	t.Helper()
	got := n.cli(t, "task", "get", "--type", "report", "--key", "k", "-o", "json")
	if got.code != 0 {
		return nil
	}
	return parse(t, got.stdout)[0]["children"].([]any)[0].(map[string]any)
}

// The server is killed while children are added in several requests. The command waits for it and goes on, and each child is
// there once.
func TestChildrenOfSeveralRequestsAreAddedOnceThoughTheServerIsKilled(t *testing.T) {
	t.Parallel()
	const children = 45_000
	config := write(t, "taskengine.yaml", fmt.Sprintf(`
storage: {driver: pebble, path: %q}
handlers: {ok: {exec: ["true"]}}
types: {report: {handler: ok}, row: {handler: ok}}
`, filepath.Join(t.TempDir(), "data")))
	n := start(t, withPath(), "run", "-c", config)
	rows := write(t, "rows", strings.Repeat("{\"type\": \"row\", \"in\": \"1000h\"}\n", children))
	added := make(chan result, 1)
	first := n
	go func() {
		var got result
		for range 10 { // the command gives a node up that takes long to start, and goes on when it is given again
			if got = first.cli(t, "task", "add", "report", "--key", "k", "--children", rows); got.code != exitUnavailable {
				break
			}
		}
		added <- got
	}()
	for _, most := range []float64{10_000, 30_000} {
		for set := n.childSet(t); set == nil || set["added"].(float64) < most; set = n.childSet(t) {
		}
		n.signal(t, syscall.SIGKILL)
		<-n.ended
		n = startAt(t, first.api, withPath(), "run", "-c", config)
	}
	if got := <-added; got.code != 0 {
		t.Fatalf("the command says %+v", got)
	}
	if set := n.childSet(t); set["added"] != float64(children) || set["open"] != false || set["awaits"] != float64(children) {
		t.Errorf("the task has the children %v", set)
	}
	count := n.ok(t, "task", "count", "-o", "json")
	if !strings.Contains(count, fmt.Sprintf(`%d`, children)) {
		t.Errorf("there are %s", count)
	}
	if got := n.ok(t, "task", "add", "report", "--key", "k", "--children", rows); !strings.Contains(n.ok(t, "task", "count", "-o", "json"), fmt.Sprint(children)) {
		t.Errorf("the same command again says %s", got)
	}
}
