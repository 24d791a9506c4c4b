//go:build !race

package e2e

import (
	"fmt"
	"os"
	"syscall"
	"testing"
	"time"
)

// Tasks that wait for a slot of a plugin have not begun: a node that is stopped or killed
// leaves them as they were, though they run at most once, and only the tasks of the plugin are
// in doubt.
func TestTasksThatWaitForAPluginHaveNotBegun(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	const slots, tasks = 2, 40
	for name, end := range map[string]struct {
		signals []syscall.Signal
		doubted int // tasks that may have taken effect
	}{
		"killed":                          {[]syscall.Signal{syscall.SIGKILL}, slots},
		"stopped, and what runs finishes": {[]syscall.Signal{syscall.SIGTERM}, 0},
		"stopped at once":                 {[]syscall.Signal{syscall.SIGTERM, syscall.SIGTERM}, slots},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := newGate(t)
			file := write(t, "taskengine.yaml", fmt.Sprintf(`
node: {drain_timeout: 50s}
storage: {driver: pebble, path: ./data}
handlers:
  talker: {plugin: [%q], env: {%s: plugin, TALK: %q}, slots: %d}
types:
  talk: {handler: talker, delivery: at_most_once}
`, self, role, string(g), slots))
			n := start(t, nil, "run", "-c", file)
			for range tasks {
				n.ok(t, "task", "add", "talk")
			}
			for len(n.objects(t, "task", "list", "--state", "processing")) < slots {
				time.Sleep(askEvery)
			}
			if waiting := n.objects(t, "task", "list", "--state", "submitted", "--limit", fmt.Sprint(tasks)); len(waiting) != tasks-slots {
				t.Errorf("%d tasks wait, want %d", len(waiting), tasks-slots)
			}
			for i, s := range end.signals {
				n.signal(t, s)
				if i == 0 && s == syscall.SIGTERM {
					n.says(t, "stopping")
				}
			}
			if end.doubted == 0 {
				g.open(t)
			}
			n.exit(t)
			g.open(t)
			n = start(t, nil, "run", "-c", file)
			n.ok(t, "task", "wait", "--type", "talk", "--timeout", "1m")
			if failed := n.objects(t, "task", "list", "--state", "error"); len(failed) != end.doubted {
				t.Errorf("%d tasks are in error, want %d: %v", len(failed), end.doubted, failed)
			}
			for _, done := range n.objects(t, "task", "list", "--state", "done", "--limit", fmt.Sprint(tasks)) {
				if done["attempt"] != 2.0 { // the first of each fails
					t.Errorf("a task is done after %v attempts", done["attempt"])
				}
			}
		})
	}
}
