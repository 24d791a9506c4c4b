package plugins

import (
	"bufio"
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

// cage is a control group (cgroup v2) for one process of a handler and all that it
// starts: what leaves the process group is still in it. The group lies below the node's
// own, so that the limits of the node hold for it too.
type cage struct {
	path string
	dir  *os.File
}

const (
	cageName = "taskengine-" // then the node's process and a number
	nodeName = "taskengine"  // where a node moves that has to make room for limits
)

// newCage makes a cage with these limits in the control group of this process.
func newCage(l Limits) (*cage, error) {
	base, err := cageBase()
	if err != nil {
		return nil, err
	}
	return newCageIn(base, l)
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

func newCageIn(base string, l Limits) (*cage, error) {
	sweepCages(base)
	if l != (Limits{}) {
		if err := allowLimits(base, l); err != nil {
			return nil, err
		}
	}
	path, err := os.MkdirTemp(base, fmt.Sprintf("%s%d-", cageName, os.Getpid()))
	if err != nil {
		return nil, err
	}
	c := &cage{path: path}
	err = c.limit(l)
	if err == nil {
		c.dir, err = os.Open(path)
	}
	if err != nil {
		return nil, errors.Join(err, os.Remove(path))
	}
	return c, nil
}

// sweepCages removes those of nodes that are gone.
func sweepCages(base string) {
	left, _ := filepath.Glob(filepath.Join(base, cageName+"*-*"))
	for _, path := range left {
		owner, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(path), cageName), "-")
		if pid, err := strconv.Atoi(owner); err == nil && errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
			_ = os.Remove(path) // fails while something lives in it
		}
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

func (c *cage) limit(l Limits) error {
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
func (c *cage) hold(attr *syscall.SysProcAttr) {
	attr.UseCgroupFD, attr.CgroupFD = true, int(c.dir.Fd())
}

// outOfMemory reports whether something in the cage was killed because it held more
// memory than allowed.
func (c *cage) outOfMemory() bool {
	events, _ := os.ReadFile(filepath.Join(c.path, "memory.events"))
	for line := range strings.Lines(string(events)) {
		if n, ok := strings.CutPrefix(line, "oom_kill "); ok {
			return strings.TrimSpace(n) != "0"
		}
	}
	return false
}

// kill ends everything in the cage.
func (c *cage) kill() { _ = put(c.path, "cgroup.kill", "1") }

// remove removes the cage once it is empty, for which it waits a little: what is left is
// swept later.
func (c *cage) remove() {
	c.dir.Close()
	for end := time.Now().Add(pipePatience); os.Remove(c.path) != nil && time.Now().Before(end); {
		time.Sleep(pipePatience / 20)
	}
}
