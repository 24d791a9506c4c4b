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

// Cage is a control group (cgroup v2) for one process of a handler and all that it
// starts: what leaves the process group is still in it. The group lies below the node's
// own, so that the limits of the node hold for it too.
type Cage struct {
	path string
	dir  *os.File // locked: what finds it unlocked knows that the node is dead
}

const (
	cageName = "taskengine-" // then the node's process and a number
	nodeName = "taskengine"  // where a node moves that has to make room for limits
)

// cagePatience is how long a cage is given to become empty.
const cagePatience = 200 * time.Millisecond

// make makes a cage with these limits in the control group of this process.
func (c *Cages) make(l Limits) (*Cage, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	base, err := c.where()
	if err != nil {
		return nil, err
	}
	if now := time.Now(); now.Sub(c.swept) >= sweepEvery {
		sweepCages(base)
		c.swept = now
	}
	if l != (Limits{}) && l != c.allowed {
		if err := allowLimits(base, l); err != nil {
			return nil, err
		}
		c.allowed = l
	}
	return newCageIn(base, l)
}

// where returns the folder of the control group of this process. It is called with mu held.
func (c *Cages) where() (string, error) {
	if c.base != "" {
		return c.base, nil
	}
	base, err := cageBase()
	c.base = base
	return base, err
}

// cageBase returns the folder of the control group of this process.
func cageBase() (string, error) {
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

// newCageIn makes a cage in base, which allows these limits. Its name has the process of
// the node and when that began, which no other process has in common with it.
func newCageIn(base string, l Limits) (*Cage, error) {
	path, err := os.MkdirTemp(base, ownCages())
	if err != nil {
		return nil, err
	}
	c := &Cage{path: path}
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

// ownCages is what the names of the cages of this process begin with.
func ownCages() string { return fmt.Sprintf("%s%d-%d-", cageName, os.Getpid(), begin(os.Getpid())) }

// begin returns when a process began, in ticks since the start of the machine; 0 if there
// is no such process.
func begin(pid int) uint64 {
	stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	afterName := bytes.LastIndex(stat, []byte(") ")) + 2 // a name may hold anything
	if afterName < 2 {
		return 0
	}
	const field = 22 - 3 // of proc(5), counted from there
	fields := strings.Fields(string(stat[afterName:]))
	if len(fields) <= field {
		return 0
	}
	ticks, _ := strconv.ParseUint(fields[field], 10, 64)
	return ticks
}

// sweepCages ends what is in the cages of nodes that are dead, and removes them.
func sweepCages(base string) {
	left, _ := filepath.Glob(filepath.Join(base, cageName+"*-*"))
	own := filepath.Join(base, ownCages())
	for _, path := range left {
		if !strings.HasPrefix(path, own) && isLeft(path) {
			if !isEmpty(path) {
				_ = put(path, "cgroup.kill", "1")
			}
			removeSoon(path)
		}
	}
}

// isLeft reports whether the node is dead whose cage is at path. A node in another
// namespace of processes has a number of its own there, so that nothing lives at the one in
// the name: what it holds is the lock.
func isLeft(path string) bool {
	parts := strings.Split(strings.TrimPrefix(filepath.Base(path), cageName), "-")
	pid, err := strconv.Atoi(parts[0])
	if err != nil || pid == os.Getpid() && len(parts) < 3 {
		return false
	}
	if len(parts) < 3 { // made by an earlier version, which locked nothing
		return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) && isEmpty(path)
	}
	if since := begin(pid); since != 0 && strconv.FormatUint(since, 10) == parts[1] {
		return false
	}
	dir, err := os.Open(path)
	if err != nil {
		return false
	}
	defer dir.Close()
	return syscall.Flock(int(dir.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil
}

// isEmpty reports whether no process is in the cage at path.
func isEmpty(path string) bool {
	processes, err := os.ReadFile(filepath.Join(path, "cgroup.procs"))
	return err != nil || len(processes) == 0
}

// removeSoon removes the cage at path once it is empty, for which it waits a little.
func removeSoon(path string) {
	for end := time.Now().Add(cagePatience); os.Remove(path) != nil && time.Now().Before(end); {
		time.Sleep(cagePatience / 20)
	}
}

// allowLimits has the groups below base be limited. A group that has processes itself
// cannot do that, unless it is the root: the node moves out of the way then.
func allowLimits(base string, l Limits) error {
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
	err = put(base, "cgroup.subtree_control", order)
	if !errors.Is(err, syscall.EBUSY) {
		return err
	}
	leaf := filepath.Join(base, nodeName)
	if err := os.Mkdir(leaf, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if err := put(leaf, "cgroup.procs", strconv.Itoa(os.Getpid())); err != nil {
		return err
	}
	return put(base, "cgroup.subtree_control", order)
}

func put(dir, file, text string) error {
	return os.WriteFile(filepath.Join(dir, file), []byte(text), 0o644)
}

// controllers returns those that l needs.
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

// cpuPeriod is the interval within which a share of the CPU is given.
const cpuPeriod = 100 * time.Millisecond

func (c *Cage) limit(l Limits) error {
	var err error
	if l.Memory > 0 {
		err = errors.Join(
			put(c.path, "memory.max", strconv.FormatInt(l.Memory, 10)),
			put(c.path, "memory.oom.group", "1")) // half a handler helps nobody
		_ = put(c.path, "memory.swap.max", "0") // there may be no swap to be limited
	}
	if l.CPU > 0 {
		quota := time.Duration(l.CPU * float64(cpuPeriod))
		err = errors.Join(err, put(c.path, "cpu.max", fmt.Sprintf("%d %d", quota.Microseconds(), cpuPeriod.Microseconds())))
	}
	if l.Processes > 0 {
		err = errors.Join(err, put(c.path, "pids.max", strconv.Itoa(l.Processes)))
	}
	return err
}

// hold has a process be started in the cage.
func (c *Cage) hold(attr *syscall.SysProcAttr) {
	attr.UseCgroupFD, attr.CgroupFD = true, int(c.dir.Fd())
}

// outOfMemory reports whether something in the cage was killed because it held more
// memory than allowed.
func (c *Cage) outOfMemory() bool {
	events, _ := os.ReadFile(filepath.Join(c.path, "memory.events"))
	for line := range strings.Lines(string(events)) {
		if n, ok := strings.CutPrefix(line, "oom_kill "); ok {
			return strings.TrimSpace(n) != "0"
		}
	}
	return false
}

// kill ends everything in the cage.
func (c *Cage) kill() { _ = put(c.path, "cgroup.kill", "1") }

// Remove removes the cage once it is empty, for which it waits a little: what is left is
// swept after the end of the node.
func (c *Cage) Remove() {
	removeSoon(c.path)
	c.dir.Close()
}
