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

// What can be seen of a cage where no controller is: the files that it writes.
func TestACageWritesItsLimits(t *testing.T) {
	base := t.TempDir()
	if err := put(base, "cgroup.controllers", "cpu io memory pids\n"); err != nil {
		t.Fatal(err)
	}
	stale := filepath.Join(base, cageName+"999999999-1") // no system has so many processes
	for _, dir := range []string{stale, filepath.Join(base, cageName+fmt.Sprint(os.Getpid())+"-1")} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	cages := Cages{base: base, log: slog.New(slog.DiscardHandler)}
	c, err := cages.New(Limits{Memory: 100 << 20, CPU: 1.5, Processes: 20})
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
	if err := put(c.path, "memory.events", "low 0\noom 1\noom_kill 1\n"); err != nil || !c.outOfMemory() {
		t.Error("something was killed")
	}
	if left, _ := filepath.Glob(filepath.Join(base, cageName+"*")); len(left) != 2 {
		t.Errorf("cages: %v, want the new one and that of this process", left)
	}
}

func TestALimitWithoutItsControllerIsRefused(t *testing.T) {
	base := t.TempDir()
	if err := put(base, "cgroup.controllers", "cpu\n"); err != nil {
		t.Fatal(err)
	}
	cages := Cages{base: base, log: slog.New(slog.DiscardHandler)}
	c, err := cages.New(Limits{CPU: 1, Memory: 1})
	if err == nil || !strings.Contains(err.Error(), `"memory"`) || c == nil {
		t.Errorf("got %v, %v, want a cage without limits", c, err)
	} else {
		c.dir.Close()
	}
	if _, err := newCageIn(filepath.Join(base, "none"), Limits{}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("without the folder: %v", err)
	}
}

// real returns a maker of cages, or skips the test where there can be none.
func real(t *testing.T) *Cages {
	t.Helper()
	cages := NewCages(slog.New(slog.NewTextHandler(t.Output(), nil)))
	c, err := cages.New(Limits{})
	if err != nil || c == nil {
		t.Skip("this process may not make control groups of cgroup v2")
	}
	c.Remove()
	return cages
}

// sleeper starts a process that leaves its group.
func sleeper(t *testing.T, c *Cage) *exec.Cmd {
	t.Helper()
	cmd := exec.Command("sleep", "1000")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	c.hold(cmd.SysProcAttr)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	return cmd
}

func TestWhatADeadNodeLeftInItsCagesIsEndedAtTheNextStart(t *testing.T) {
	cages := real(t)
	const noProcess = 999_999_999 // no system has so many
	for name, test := range map[string]struct {
		pid    int
		since  uint64
		locked bool
		ends   bool
	}{
		"its node is dead": {noProcess, 1, false, true},
		"its node is dead, and its number is another's": {os.Getpid(), 1, false, true},
		"its node lives": {os.Getpid(), begin(os.Getpid()), false, false},
		"its node lives where processes have other numbers":   {noProcess, 1, true, false},
		"its node lives, and has the number of another there": {os.Getpid(), 1, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			c := &Cage{path: filepath.Join(cages.base, fmt.Sprintf("%s%d-%d-1", cageName, test.pid, test.since))}
			if err := os.Mkdir(c.path, 0o755); err != nil {
				t.Fatal(err)
			}
			defer c.Remove()
			defer c.kill()
			var err error
			if c.dir, err = os.Open(c.path); err != nil {
				t.Fatal(err)
			}
			if test.locked {
				if err := syscall.Flock(int(c.dir.Fd()), syscall.LOCK_EX); err != nil {
					t.Fatal(err)
				}
			}
			p := sleeper(t, c)
			cages.Sweep()
			if !test.ends {
				if isEmpty(c.path) {
					t.Error("a process of a node that lives was ended")
				}
				_ = p.Process.Kill()
			}
			_ = p.Wait() // it was killed, which is no news
			if _, err := os.Stat(c.path); test.ends != errors.Is(err, os.ErrNotExist) {
				t.Errorf("the cage: %v", err)
			}
		})
	}
}

func TestACageIsLockedWhileItIsUsed(t *testing.T) {
	c, err := real(t).New(Limits{})
	if err != nil {
		t.Fatal(err)
	}
	if dir, err := os.Open(c.path); err != nil {
		t.Error(err)
	} else {
		if syscall.Flock(int(dir.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil {
			t.Error("another could lock it")
		}
		dir.Close()
	}
	c.Remove()
	if _, err := os.Stat(c.path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("after its end: %v", err)
	}
}
