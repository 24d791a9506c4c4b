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

// placedSlices makes a node that fetches slices of two platforms: those of b only if it is in the zone eu.
const placedSlices = `
node: {name: n1, drain_timeout: 10s}
storage: %s
task_log: {path: %q}
handlers: {fetch: {exec: [/bin/cat]}}
types: {fetch: {}}
sources:
  orders: {type: fetch, slices: {interval: 1s, platforms: [a, b], per_platform: {b: {nodes: {zone: [eu]}}}}}
alerts:
  targets: {ops: {log: true}}
  rules: {nobody: {when: unhandled, match: fetch, for: 0s}}
`

// The slices of a platform without a node wait, which an alert says, and those of others do not.
func TestSlicesWaitForANodeThatTheirPlatformNames(t *testing.T) {
	t.Parallel()
	for _, driver := range []string{"pebble", "bolt", "postgres"} {
		t.Run(driver, func(t *testing.T) {
			storage := fmt.Sprintf("{driver: %s, path: %q}", driver, t.TempDir())
			if driver == "postgres" {
				storage = storageOf(t, driver)
			}
			file := write(t, "taskengine.yaml", fmt.Sprintf(placedSlices, storage, t.TempDir()))
			in := func(zone string) *running {
				return start(t, nil, "run", "-c", file, "--set", "coordination.labels={zone: "+zone+"}")
			}
			n := in("us")
			low := func(platform string) time.Time {
				r := n.cli(t, "source", "show", "orders/"+platform, "-o", "json")
				if r.code == exitNotFound { // the source has not added it yet
					return time.Time{}
				}
				text, isKnown := decode[map[string]any](t, r.stdout)[0]["low_water"].(string)
				if !isKnown { // it has not run yet
					return time.Time{}
				}
				at, err := time.Parse(time.RFC3339Nano, text)
				if err != nil {
					t.Fatal(err)
				}
				return at
			}
			until := func(what string, is func() bool) {
				for end := time.Now().Add(limit); !is(); time.Sleep(askEvery) {
					if time.Now().After(end) {
						t.Fatalf("not yet: %s", what)
					}
				}
			}
			var first time.Time
			until("b has run", func() bool { first = low("b"); return !first.IsZero() })
			until("the slices of a are fetched", func() bool { return low("a").After(first.Add(2 * time.Second)) })
			if !low("b").Equal(first) {
				t.Errorf("b is fetched until %v", low("b"))
			}
			slices := n.objects(t, "source", "show", "orders/b")[0]["slices"].([]any)
			id := slices[0].(map[string]any)["task_id"].(string)
			if text := n.ok(t, "task", "why", id); !strings.Contains(text, "zone=eu") {
				t.Errorf("why says %s", text)
			}
			endInOrder(t, n)
			n = in("us") // looks for unhandled tasks as soon as it has started
			awaitAlerts(t, n, func(l alertsJSON) bool {
				return len(l.Alerts) == 1 && l.Alerts[0].Rule == "nobody" && strings.Contains(l.Alerts[0].Summary, "fetch")
			})
			endInOrder(t, n)
			now := time.Now()
			n = in("eu")
			until("the slices of b are fetched", func() bool { return low("b").After(now) })
			awaitAlerts(t, n, func(l alertsJSON) bool { return len(l.Alerts) == 0 })
			endInOrder(t, n)
		})
	}
}
