//go:build !race

package e2e

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"
)

// placed returns a configuration with tasks of type export for nodes of the zones eu and ch.
func placed(t *testing.T, storage, folder string) string {
	return write(t, "taskengine.yaml", fmt.Sprintf(`
node: {name: n1, drain_timeout: 10s}
storage: %s
task_log: {path: %q}
handlers: {copy: {exec: [/bin/cat]}}
types: {export: {handler: copy, nodes: {zone: [eu, ch]}}}
`, storage, folder))
}

// metric waits until a node exposes a value of a series.
func (n *running) metric(t *testing.T, series, value string) {
	t.Helper()
	for begin := time.Now(); time.Since(begin) < limit; time.Sleep(10 * time.Millisecond) {
		res, err := http.Get("http://" + n.admin + "/metrics")
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(res.Body)
		res.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), series+" "+value+"\n") {
			return
		}
	}
	t.Fatalf("%s does not become %s", series, value)
}

func TestTasksWaitForANodeThatTheirTypeNames(t *testing.T) {
	t.Parallel()
	for _, driver := range []string{"pebble", "bolt", "postgres"} {
		t.Run(driver, func(t *testing.T) {
			storage := fmt.Sprintf("{driver: %s, path: %q}", driver, t.TempDir())
			if driver == "postgres" {
				storage = storageOf(t, driver)
			}
			file := placed(t, storage, t.TempDir())
			us := func() *running {
				return start(t, nil, "run", "-c", file, "--set", "coordination.labels={zone: us}")
			}
			n := us()
			var ids []string
			for range 3 {
				ids = append(ids, n.ok(t, "task", "add", "export", "--data", "{}"))
			}
			const why = "no_node     no live node matches nodes: zone=eu|ch; nodes that are alive: n1 (zone=us)\n"
			if text := n.ok(t, "task", "why", ids[0]) + "\n"; !strings.Contains(text, why) {
				t.Errorf("why says %s", text)
			}
			typ := n.objects(t, "type", "list")[0]
			if typ["handled"] != false || typ["nodes"] != "zone=eu|ch" || len(typ["run_by"].([]any)) > 0 {
				t.Errorf("the type is listed as %v", typ)
			}
			endInOrder(t, n)
			n = us() // looks for unhandled tasks as soon as it has started
			n.metric(t, `taskengine_tasks_unhandled{type="export"}`, "3")
			endInOrder(t, n)
			n = start(t, nil, "run", "-c", file, "--set", "coordination.labels={zone: ch}")
			n.ok(t, append([]string{"task", "wait", "--timeout", "1m"}, ids...)...)
			if typ := n.objects(t, "type", "list")[0]; typ["handled"] != true || fmt.Sprint(typ["run_by"]) != "[n1]" {
				t.Errorf("the type is listed as %v", typ)
			}
		})
	}
}

// endInOrder ends a node as an operator does.
func endInOrder(t *testing.T, n *running) {
	t.Helper()
	n.signal(t, syscall.SIGTERM)
	if code := n.exit(t); code != exitOK {
		t.Fatalf("the node ended with %d", code)
	}
}
