package plugins

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
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
	c, err := newCageIn(base, Limits{Memory: 100 << 20, CPU: 1.5, Processes: 20})
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
	if _, err := newCageIn(base, Limits{CPU: 1, Memory: 1}); err == nil || !strings.Contains(err.Error(), `"memory"`) {
		t.Errorf("got %v", err)
	}
	if _, err := newCageIn(filepath.Join(base, "none"), Limits{}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("without the folder: %v", err)
	}
}
