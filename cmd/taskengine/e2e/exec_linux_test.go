//go:build !race

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// execFamily is a handler. Its first attempt starts a child, a grandchild of a shell that
// waits for it, and a process that leaves the session, writes their IDs to the file $FAMILY and
// does not end. The second attempt reports which of them are alive.
const execFamily = `
storage: {driver: pebble, path: ./data}
handlers:
  family:
    exec:
      - sh
      - -c
      - |
        if [ "$TASKENGINE_ATTEMPT" = 2 ]; then
          for p in $(cat "$FAMILY"); do
            if [ -d /proc/$p ] && ! grep -q '^State:.Z' /proc/$p/status; then echo "$p lives"; fi
          done
          exit 0
        fi
        sleep 1000 & echo $$ $! > "$FAMILY.new"
        sh -c 'sleep 1000 & echo $! >> "$FAMILY.new"; wait; echo' &
        if grep -q /taskengine- /proc/self/cgroup; then
          setsid sh -c 'echo $$ >> "$FAMILY.new"; exec sleep 1000' &
        else
          echo $$ >> "$FAMILY.new"
        fi
        while [ $(wc -l < "$FAMILY.new") -lt 3 ]; do sleep 0.01; done
        mv "$FAMILY.new" "$FAMILY"
        wait
    env: {FAMILY: %q}
    pass_env: PATH
types: {family: {}}
`

func TestACommandIsNotBesideItselfAfterItsNodeWasKilled(t *testing.T) {
	t.Parallel()
	family := filepath.Join(t.TempDir(), "family")
	file := write(t, "taskengine.yaml", fmt.Sprintf(execFamily, family))
	env := []string{"PATH=" + os.Getenv("PATH")}
	n := start(t, env, "run", "-c", file)
	id := n.ok(t, "task", "add", "family")
	var pids []int
	for begin := time.Now(); len(pids) == 0; time.Sleep(time.Millisecond) {
		text, err := os.ReadFile(family)
		for _, word := range strings.Fields(string(text)) {
			var pid int
			if _, err := fmt.Sscan(word, &pid); err != nil {
				t.Fatalf("%q: %v", text, err)
			}
			pids = append(pids, pid)
		}
		if err != nil && time.Since(begin) > limit {
			t.Fatal("the command does not begin")
		}
	}
	if err := n.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-n.ended
	for begin := time.Now(); len(pids) > 0; {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pids[0]))
		if err != nil || strings.Contains(string(stat), ") Z ") {
			pids = pids[1:]
		} else if time.Since(begin) > limit {
			t.Errorf("process %d outlives its node", pids[0])
			syscall.Kill(pids[0], syscall.SIGKILL)
			pids = pids[1:]
		}
	}
	n = start(t, env, "run", "-c", file)
	if got := n.until(t, id, "done"); got["attempt"] != 2.0 {
		t.Errorf("the task is %v", got)
	}
	if text := n.ok(t, "task", "get", id, "-o", "json"); strings.Contains(text, "lives") {
		t.Errorf("the second attempt saw those of the first: %s", text)
	}
}

func TestTheStandardErrorOfACommandIsInTheLogOfItsTask(t *testing.T) {
	t.Parallel()
	n := start(t, nil, "run", "-c", settings(t, "memory", newGate(t)))
	id := n.ok(t, "task", "add", "fail")
	n.until(t, id, "error")
	if text := n.ok(t, "task", "logs", id); !strings.Contains(text, "sorry") {
		t.Errorf("the log is %q", text)
	}
}
