package conform_test

import (
	"os"
	"slices"
	"strconv"
	"syscall"
	"testing"
)

const noneLeft = "no process is left when it has exited"

func TestADaemonIsReportedAndKilled(t *testing.T) {
	dir := t.TempDir()
	o := self(t, "leaves a daemon", transport+"=json", elsewhere+"="+dir)
	o.Type = "echo"
	if failed := names(examine(t, o), "failed"); !slices.Equal(failed, []string{noneLeft}) {
		t.Errorf("these failed: %q", failed)
	}
	daemons, err := os.ReadDir(dir)
	if err != nil || len(daemons) == 0 {
		t.Fatalf("there were %v (%v)", daemons, err)
	}
	for _, d := range daemons {
		pid, err := strconv.Atoi(d.Name())
		if err != nil {
			t.Fatal(err)
		}
		if command, _ := os.ReadFile("/proc/" + d.Name() + "/cmdline"); string(command) == "/bin/sleep\x0060\x00" {
			t.Errorf("the daemon %d is left", pid)
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}

// TestADeadChildIsNotLeft examines a program with a dead child that is not reaped, as where the
// first process of a container is none that does.
func TestADeadChildIsNotLeft(t *testing.T) {
	adopt := func(orphans uintptr) {
		const setChildSubreaper = 36 // of prctl
		if _, _, err := syscall.RawSyscall(syscall.SYS_PRCTL, setChildSubreaper, orphans, 0); err != 0 {
			t.Fatal(err)
		}
	}
	adopt(1)
	defer func() {
		adopt(0)
		for { // nothing else that this process started runs now
			if pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil); pid <= 0 || err != nil {
				return
			}
		}
	}()
	o := self(t, "leaves a dead child", transport+"=json")
	o.Type = "echo"
	if c := outcome(t, examine(t, o), noneLeft); c.Outcome != "passed" {
		t.Errorf("it says %+v", c)
	}
}
