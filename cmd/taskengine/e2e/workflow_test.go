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
)

// workflowConfig makes a node with workflows of three steps that note that they run: a fan-out between two tasks.
const workflowConfig = `
storage: %s
handlers:
  note: {exec: [sh, -c, 'read -r line; sleep 0.05; echo "$line" >> "$JOURNAL"; echo "{\"of\": $line}"'], env: {JOURNAL: %q}}
types:
  note: {handler: note, max_crashes: 0, retry: {max: forever, backoff: {fixed: [100ms]}}}
workflows:
  chain:
    steps:
      first: {type: note, payload: {step: first, n: {$input: n}}}
      each:  {type: note, after: [first], for_each: [a, b, c], payload: {step: {$item: ""}, n: {$result: first.of.n}}}
      last:  {type: note, after: [each], payload: {step: last, n: {$result: each.2.of.n}}}
    output: {$result: last}
`

// TestWorkflowsAreDoneThoughTheirNodeIsKilled kills a node again and again while it runs workflows.
func TestWorkflowsAreDoneThoughTheirNodeIsKilled(t *testing.T) {
	t.Parallel()
	for _, driver := range []string{"pebble", "bolt", "postgres"} {
		t.Run(driver, func(t *testing.T) {
			t.Parallel()
			journal := filepath.Join(t.TempDir(), "journal")
			file := write(t, "taskengine.yaml", fmt.Sprintf(workflowConfig, storageOf(t, driver), journal))
			n := start(t, withPath(), "run", "-c", file)
			const count = 20
			for i := range count {
				n.ok(t, "workflow", "submit", "chain", "--input", fmt.Sprintf(`{"n": %d}`, i), "--key", fmt.Sprint("k", i))
			}
			for range 4 {
				time.Sleep(300 * time.Millisecond) // any moment is the right one
				n.signal(t, syscall.SIGKILL)
				n.exit(t)
				n = start(t, withPath(), "run", "-c", file)
			}
			n.ok(t, "task", "wait", "--type", "taskengine.workflow")
			for i := range count {
				w := n.objects(t, "workflow", "show", "--key", fmt.Sprint("k", i), "--output", "json")[0]
				if got, want := fmt.Sprint(w["output"]), fmt.Sprintf(`{"of":{"n":%d,"step":"last"}}`, i); got != want {
					t.Errorf("workflow %d is %v, with the output %s, want %s", i, w["task"], got, want)
				}
			}
			text, err := os.ReadFile(journal)
			if err != nil {
				t.Fatal(err)
			}
			lines := strings.Split(string(text), "\n")
			for i := range count { // the first line of each step comes after the last step before it has begun
				at := func(step string) int { return slices.Index(lines, fmt.Sprintf(`{"n":%d,"step":%q}`, i, step)) }
				if !(at("first") >= 0 && at("first") < at("a") && at("c") < at("last") && at("b") < at("last")) {
					t.Errorf("the steps of workflow %d are in lines %d, %d, %d, %d and %d", i, at("first"), at("a"), at("b"), at("c"), at("last"))
				}
			}
			got := n.cli(t, "workflow", "submit", "chian")
			if got.code != 4 || !strings.Contains(got.stderr, "did you mean chain?") {
				t.Errorf("a workflow that there is not: %d, %s", got.code, got.stderr)
			}
			bad := write(t, "bad.yaml", "steps:\n  a: {type: note}\n  b: {type: note, after: [c]}\n")
			if got = n.cli(t, "workflow", "submit", "--file", bad); got.code == 0 || !strings.Contains(got.stderr, `bad.yaml:3:`) || !strings.Contains(got.stderr, `steps.b.after: there is no step "c"`) {
				t.Errorf("a definition that is wrong: %d, %s", got.code, got.stderr)
			}
		})
	}
}
