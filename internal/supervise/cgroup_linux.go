package supervise

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Cgroup is a control group of cgroup v2 for one process of a handler and all processes that it starts. A process that
// leaves the process group stays in the control group. It is a child of the node's own control group, so the limits of
// the node hold for it too.
type Cgroup struct {
	path string
	dir  *os.File // holds a file lock: an unlocked directory belongs to a node that is dead
}

const (
	cgroupPrefix = "taskengine-" // of the name of a Cgroup; the node's process and a number follow
	nodeName     = "taskengine"  // the control group that a node moves to before it enables controllers
)

// removeTimeout is how long the removal of a control group waits for it to become empty.
const removeTimeout = 200 * time.Millisecond

// create creates a control group with the given limits below that of this process.
func (c *Cgroups) create(l Limits) (*Cgroup, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	base, err := c.findBase()
	if err != nil {
		return nil, err
	}
	if now := time.Now(); now.Sub(c.cleaned) >= staleInterval {
		removeStale(base)
		c.cleaned = now
	}
	if l != (Limits{}) && l != c.delegated {
		if err := enableControllers(base, l); err != nil {
			return nil, err
		}
		c.delegated = l
	}
	return newCgroup(base, l)
}

// findBase returns the directory of the control group of this process. mu must be held.
func (c *Cgroups) findBase() (string, error) {
	if c.base != "" {
		return c.base, nil
	}
	base, err := ownCgroup()
	c.base = base
	return base, err
}

// ownCgroup returns the directory of the control group of this process, or its parent if this process has moved to the
// group nodeName.
func ownCgroup() (string, error) {
	mounts, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return "", err
	}
	defer mounts.Close()
	root := ""
	for lines := bufio.NewScanner(mounts); lines.Scan() && root == ""; {
		// 36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw
		before, after, _ := strings.Cut(lines.Text(), " - ")
		if fields := strings.Fields(before); strings.HasPrefix(after, "cgroup2 ") && len(fields) > 4 {
			root = fields[4]
		}
	}
	if root == "" {
		return "", errors.New("there is no cgroup v2 on this machine")
	}
	groups, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(groups)) {
		if own, ok := strings.CutPrefix(line, "0::"); ok {
			own = strings.TrimSpace(own)
			if filepath.Base(own) == nodeName {
				own = filepath.Dir(own)
			}
			return filepath.Join(root, own), nil
		}
	}
	return "", errors.New("this process is in no control group of cgroup v2")
}

// newCgroup creates a control group below base, where the controllers of l are enabled. The number and the start time
// of the node's process are part of its name; no other process has the same two.
func newCgroup(base string, l Limits) (*Cgroup, error) {
	path, err := os.MkdirTemp(base, ownPrefix())
	if err != nil {
		return nil, err
	}
	c := &Cgroup{path: path}
	err = c.limit(l)
	if err == nil {
		c.dir, err = os.Open(path)
	}
	if err == nil {
		err = syscall.Flock(int(c.dir.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	}
	if err != nil {
		if c.dir != nil {
			c.dir.Close()
		}
		return nil, errors.Join(err, os.Remove(path))
	}
	return c, nil
}

// ownPrefix returns the prefix of the names of the control groups that this process creates.
func ownPrefix() string {
	return fmt.Sprintf("%s%d-%d-", cgroupPrefix, os.Getpid(), startTicks(os.Getpid()))
}

// startTicks returns when a process started, in ticks since the start of the machine; 0 if there is no such process.
func startTicks(pid int) uint64 {
	stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	afterName := bytes.LastIndex(stat, []byte(") ")) + 2 // the name of a process may contain any character
	if afterName < 2 {
		return 0
	}
	const field = 22 - 3 // the field starttime of proc(5), counted from there
	fields := strings.Fields(string(stat[afterName:]))
	if len(fields) <= field {
		return 0
	}
	ticks, _ := strconv.ParseUint(fields[field], 10, 64)
	return ticks
}

// removeStale kills the processes in the stale control groups below base, and removes the groups.
func removeStale(base string) {
	groups, _ := filepath.Glob(filepath.Join(base, cgroupPrefix+"*-*"))
	own := filepath.Join(base, ownPrefix())
	for _, path := range groups {
		if !strings.HasPrefix(path, own) && isStale(path) {
			if !isEmpty(path) {
				_ = writeFile(path, "cgroup.kill", "1")
			}
			removeWhenEmpty(path)
		}
	}
}

// isStale reports whether the node that created the control group at path is dead. The process number in the name does
// not decide that alone: a node in another PID namespace has another number here. Such a node holds the file lock.
func isStale(path string) bool {
	parts := strings.Split(strings.TrimPrefix(filepath.Base(path), cgroupPrefix), "-")
	pid, err := strconv.Atoi(parts[0])
	if err != nil || pid == os.Getpid() && len(parts) < 3 {
		return false
	}
	if len(parts) < 3 { // created by an earlier version, which took no lock
		return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) && isEmpty(path)
	}
	if since := startTicks(pid); since != 0 && strconv.FormatUint(since, 10) == parts[1] {
		return false
	}
	dir, err := os.Open(path)
	if err != nil {
		return false
	}
	defer dir.Close()
	return syscall.Flock(int(dir.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil
}

// isEmpty reports whether no process is in the control group at path.
func isEmpty(path string) bool {
	processes, err := os.ReadFile(filepath.Join(path, "cgroup.procs"))
	return err != nil || len(processes) == 0
}

// removeWhenEmpty removes the control group at path. It waits up to removeTimeout for the group to become empty.
func removeWhenEmpty(path string) {
	for end := time.Now().Add(removeTimeout); os.Remove(path) != nil && time.Now().Before(end); {
		time.Sleep(removeTimeout / 20)
	}
}

// enableControllers enables the controllers of l for the groups below base. The kernel refuses that for a group that
// has processes itself, except for the root. Then this process moves to a child group first.
func enableControllers(base string, l Limits) error {
	want := l.controllers()
	has, err := os.ReadFile(filepath.Join(base, "cgroup.controllers"))
	if err != nil {
		return err
	}
	order := ""
	for _, name := range want {
		if !strings.Contains(" "+strings.TrimSpace(string(has))+" ", " "+name+" ") {
			return fmt.Errorf("the controller %q is not available to %s", name, base)
		}
		order += "+" + name + " "
	}
	err = writeFile(base, "cgroup.subtree_control", order)
	if !errors.Is(err, syscall.EBUSY) {
		return err
	}
	child := filepath.Join(base, nodeName)
	if err := os.Mkdir(child, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if err := writeFile(child, "cgroup.procs", strconv.Itoa(os.Getpid())); err != nil {
		return err
	}
	return writeFile(base, "cgroup.subtree_control", order)
}

func writeFile(dir, file, text string) error {
	return os.WriteFile(filepath.Join(dir, file), []byte(text), 0o644)
}

// controllers returns the controllers that l needs.
func (l Limits) controllers() []string {
	var names []string
	if l.Memory > 0 {
		names = append(names, "memory")
	}
	if l.CPU > 0 {
		names = append(names, "cpu")
	}
	if l.Processes > 0 {
		names = append(names, "pids")
	}
	return names
}

// cpuPeriod is the accounting period of the limit of the CPU.
const cpuPeriod = 100 * time.Millisecond

func (c *Cgroup) limit(l Limits) error {
	var err error
	if l.Memory > 0 {
		err = errors.Join(
			writeFile(c.path, "memory.max", strconv.FormatInt(l.Memory, 10)),
			writeFile(c.path, "memory.oom.group", "1")) // kill all processes of the group, not one of them
		_ = writeFile(c.path, "memory.swap.max", "0") // fails without swap
	}
	if l.CPU > 0 {
		quota := time.Duration(l.CPU * float64(cpuPeriod))
		err = errors.Join(err, writeFile(c.path, "cpu.max", fmt.Sprintf("%d %d", quota.Microseconds(), cpuPeriod.Microseconds())))
	}
	if l.Processes > 0 {
		err = errors.Join(err, writeFile(c.path, "pids.max", strconv.Itoa(l.Processes)))
	}
	return err
}

// place makes attr start a process in the control group.
func (c *Cgroup) place(attr *syscall.SysProcAttr) {
	attr.UseCgroupFD, attr.CgroupFD = true, int(c.dir.Fd())
}

// outOfMemory reports whether the kernel killed a process of the group because of its limit of memory.
func (c *Cgroup) outOfMemory() bool {
	events, _ := os.ReadFile(filepath.Join(c.path, "memory.events"))
	for line := range strings.Lines(string(events)) {
		if n, ok := strings.CutPrefix(line, "oom_kill "); ok {
			return strings.TrimSpace(n) != "0"
		}
	}
	return false
}

// kill kills all processes in the control group.
func (c *Cgroup) kill() { _ = writeFile(c.path, "cgroup.kill", "1") }

// Remove removes the control group. It waits a moment for the group to become empty; a group that does not is removed
// by [Cgroups.RemoveStale] after the end of the node.
func (c *Cgroup) Remove() {
	removeWhenEmpty(c.path)
	c.dir.Close()
}
