//go:build !race

package e2e

import (
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestANodeThatIsProcessOneLeavesNoZombies has commands that leave a child, and commands that are killed with theirs.
func TestANodeThatIsProcessOneLeavesNoZombies(t *testing.T) {
	t.Parallel()
	if out, err := exec.Command("unshare", "--pid", "--fork", "--mount-proc", "true").CombinedOutput(); err != nil {
		t.Skipf("no right to make a namespace of processes: %v: %s", err, out)
	}
	script := write(t, "first", "#!/bin/sh\nexec unshare --pid --fork --mount-proc --kill-child \"$PROGRAM\" \"$@\"\n")
	if err := syscall.Chmod(script, 0o700); err != nil {
		t.Fatal(err)
	}
	config := write(t, "taskengine.yaml", `
storage: {driver: memory}
handlers:
  leave: {exec: [/bin/sh, -c, "/bin/sleep 1000 & echo 1"]}
  hang: {exec: [/bin/sh, -c, "/bin/sleep 1000; true"], grace: 100ms}
types:
  leave: {retry: {max: 1}}
  hang: {retry: {max: 1}, timeout: {run: 100ms, grace: 100ms}}
`)
	self := program(t.Context(), t, nil).Path
	n := launchBy(t, script, "127.0.0.1:0", []string{"PROGRAM=" + self, "PATH=/usr/bin:/bin"}, "run", "-c", config)
	n.awaitReady(t)
	for range 3 {
		for typ, want := range map[string]string{"leave": "done", "hang": "error"} {
			r := n.cli(t, "task", "add", typ, "--wait", "-o", "json")
			if got := parse(t, r.stdout)[0]["state"]; got != want {
				t.Errorf("the task of %s is %v, want %s", typ, got, want)
			}
		}
	}
	first := childrenOf(t, n.cmd.Process.Pid)
	if len(first) != 1 {
		t.Fatalf("the children of unshare are %v", first)
	}
	pid, _ := strconv.Atoi(strings.Fields(first[0])[0])
	for begin := time.Now(); ; time.Sleep(10 * time.Millisecond) { // the killed ones end soon
		zombies := 0
		for _, child := range append(childrenOf(t, pid), grandchildrenOf(t, pid)...) {
			if strings.HasPrefix(strings.Fields(child)[1], "Z") {
				zombies++
			}
		}
		if zombies == 0 {
			break
		}
		if time.Since(begin) > limit {
			t.Fatalf("%d zombies are left", zombies)
		}
	}
	if err := syscall.Kill(pid, syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if code := n.exit(t); code != 0 {
		t.Errorf("the node ended with %d:\n%s", code, n.log)
	}
}

// childrenOf returns the number and the state of each child of a process.
func childrenOf(t *testing.T, pid int) []string {
	t.Helper()
	out, err := exec.Command("ps", "-o", "pid=,stat=", "--ppid", strconv.Itoa(pid)).Output()
	if len(out) == 0 && err != nil {
		return nil // ps fails if there is none
	}
	return strings.Split(strings.TrimSpace(string(out)), "\n")
}

func grandchildrenOf(t *testing.T, pid int) (all []string) {
	t.Helper()
	for _, child := range childrenOf(t, pid) {
		n, _ := strconv.Atoi(strings.Fields(child)[0])
		all = append(all, childrenOf(t, n)...)
	}
	return all
}
