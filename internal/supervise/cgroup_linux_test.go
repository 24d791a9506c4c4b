package supervise

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// Without controllers, the files that a Cgroup writes can still be checked.
func TestACgroupWritesItsLimits(t *testing.T) {
	base := t.TempDir()
	if err := writeFile(base, "cgroup.controllers", "cpu io memory pids\n"); err != nil {
		t.Fatal(err)
	}
	stale := filepath.Join(base, cgroupPrefix+"999999999-1") // no system has so many processes
	for _, dir := range []string{stale, filepath.Join(base, cgroupPrefix+fmt.Sprint(os.Getpid())+"-1")} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	groups := Cgroups{base: base, log: slog.New(slog.DiscardHandler)}
	c, err := groups.New(Limits{Memory: 100 << 20, CPU: 1.5, Processes: 20})
	if err != nil {
		t.Fatal(err)
	}
	defer c.dir.Close()
	for file, want := range map[string]string{
		filepath.Join(base, "cgroup.subtree_control"): "+memory +cpu +pids ",
		filepath.Join(c.path, "memory.max"):           "104857600",
		filepath.Join(c.path, "memory.oom.group"):     "1",
		filepath.Join(c.path, "cpu.max"):              "150000 100000",
		filepath.Join(c.path, "pids.max"):             "20",
	} {
		if got, err := os.ReadFile(file); err != nil || string(got) != want {
			t.Errorf("%s has %q, %v, want %q", file, got, err, want)
		}
	}
	if c.outOfMemory() {
		t.Error("nothing was killed")
	}
	if err := writeFile(c.path, "memory.events", "low 0\noom 1\noom_kill 1\n"); err != nil || !c.outOfMemory() {
		t.Error("something was killed")
	}
	if left, _ := filepath.Glob(filepath.Join(base, cgroupPrefix+"*")); len(left) != 2 {
		t.Errorf("control groups: %v, want the new one and that of this process", left)
	}
}

func TestALimitWithoutItsControllerIsRefused(t *testing.T) {
	base := t.TempDir()
	if err := writeFile(base, "cgroup.controllers", "cpu\n"); err != nil {
		t.Fatal(err)
	}
	groups := Cgroups{base: base, log: slog.New(slog.DiscardHandler)}
	c, err := groups.New(Limits{CPU: 1, Memory: 1})
	if err == nil || !strings.Contains(err.Error(), `"memory"`) || c == nil {
		t.Errorf("got %v, %v, want a control group without limits", c, err)
	} else {
		c.dir.Close()
	}
	if _, err := newCgroup(filepath.Join(base, "none"), Limits{}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("without the directory: %v", err)
	}
}

// realCgroups returns a Cgroups that can create control groups, or skips the test.
func realCgroups(t *testing.T) *Cgroups {
	t.Helper()
	groups := NewCgroups(slog.New(slog.NewTextHandler(t.Output(), nil)))
	c, err := groups.New(Limits{})
	if err != nil || c == nil {
		t.Skip("this process may not make control groups of cgroup v2")
	}
	c.Remove()
	return groups
}

// occupied creates the control group at path with a process in it that has left its process group. Tests of other
// packages remove stale groups at the same time, this one too before it is locked: then it is created again.
func occupied(t *testing.T, path string, locked bool) (*Cgroup, *exec.Cmd) {
	t.Helper()
	for range 100 {
		c := &Cgroup{path: path}
		if err := os.Mkdir(path, 0o755); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command("sleep", "1000")
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		var err error
		if c.dir, err = os.Open(path); err == nil {
			if locked {
				err = syscall.Flock(int(c.dir.Fd()), syscall.LOCK_EX)
			}
			if err == nil {
				c.place(cmd.SysProcAttr)
				err = cmd.Start()
			}
			if err == nil {
				t.Cleanup(func() { _ = cmd.Process.Kill() })
				return c, cmd
			}
			c.dir.Close()
		}
		if !errors.Is(err, os.ErrNotExist) && !errors.Is(err, syscall.ENODEV) {
			t.Fatal(err)
		}
	}
	t.Fatal("the control group was removed again and again")
	return nil, nil
}

func TestProcessesInControlGroupsOfADeadNodeAreKilledAtTheNextStart(t *testing.T) {
	groups := realCgroups(t)
	const noProcess = 999_999_999 // no system has so many
	for name, test := range map[string]struct {
		pid    int
		since  uint64
		locked bool
		ends   bool
	}{
		"its node is dead": {noProcess, 1, false, true},
		"its node is dead, and its number is another's": {os.Getpid(), 1, false, true},
		"its node lives": {os.Getpid(), startTicks(os.Getpid()), false, false},
		"its node lives where processes have other numbers":   {noProcess, 1, true, false},
		"its node lives, and has the number of another there": {os.Getpid(), 1, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			c, p := occupied(t, filepath.Join(groups.base, fmt.Sprintf("%s%d-%d-1", cgroupPrefix, test.pid, test.since)), test.locked)
			defer c.Remove()
			defer c.kill()
			groups.RemoveStale()
			if !test.ends {
				if isEmpty(c.path) {
					t.Error("a process of a node that lives was ended")
				}
				_ = p.Process.Kill()
			}
			_ = p.Wait() // it was killed
			if _, err := os.Stat(c.path); test.ends != errors.Is(err, os.ErrNotExist) {
				t.Errorf("the control group: %v", err)
			}
		})
	}
}

func TestACgroupIsLockedWhileItIsUsed(t *testing.T) {
	c, err := realCgroups(t).New(Limits{})
	if err != nil {
		t.Fatal(err)
	}
	if dir, err := os.Open(c.path); err != nil {
		t.Error(err)
	} else {
		if syscall.Flock(int(dir.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil {
			t.Error("it could be locked a second time")
		}
		dir.Close()
	}
	c.Remove()
	if _, err := os.Stat(c.path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("after its end: %v", err)
	}
}
