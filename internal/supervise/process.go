//go:build linux || darwin

package supervise

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"os/user"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// Options say how a process is started.
type Options struct {
	User    *syscall.Credential // the user that it runs as; nil for the node's user
	Cgroup  *Cgroup             // that it runs in; Wait removes it; nil for none
	Starter *Starter            // starts it; nil for the calling thread
	Log     *slog.Logger        // for problems with the watchdog
	Input   []byte              // its whole standard input, which it reads even if the node dies; nil for a pipe
}

// Process is a program that was started, with its pipes, process group, watchdog and control group. The methods may be
// called from any goroutine, Wait only once. The caller closes the pipes.
type Process struct {
	Pipes

	cmd        *exec.Cmd
	cgroup     *Cgroup // nil if there is none
	log        *slog.Logger
	parentPeak int64          // the peak memory of this process in bytes when it started cmd
	keeper     sync.WaitGroup // of the goroutine that runs keepWatchdog
	gone       chan struct{}  // closed by reap

	// mu is held while a signal is sent and while the process is reaped, so that no signal goes to another process that
	// has got the same number.
	mu       sync.Mutex
	reaped   bool          // guarded by mu
	timers   []*time.Timer // guarded by mu: the signals that Stop has scheduled
	watchdog *os.Process   // guarded by mu: nil if none was started
	lifeline *os.File      // guarded by mu: the end of a pipe; the watchdog acts when it is closed; nil if none was started
}

// Exit says how a process ended.
type Exit struct {
	State       *os.ProcessState // nil if it is not known
	Err         error            // why it is not known
	OutOfMemory bool             // the kernel killed a process of the control group because of its limit of memory
	MaxRSS      int64            // peak memory of the process itself in bytes; 0 if it is unknown: below the node's own peak
}

// String returns the exit code or the signal for logs and errors, or why they are not known.
func (e Exit) String() string {
	switch {
	case e.Err != nil:
		return e.Err.Error()
	case e.OutOfMemory:
		return e.State.String() + ", out of the memory that it is allowed"
	}
	return e.State.String()
}

// Start starts cmd as the leader of a new process group, with pipes to its standard input, output and error. On Linux
// cmd is killed when the thread that started it ends, see [Starter]. If Start returns an error, the control group
// remains the caller's.
func Start(cmd *exec.Cmd, o Options) (*Process, error) {
	cmd.SysProcAttr = newGroup()
	cmd.SysProcAttr.Credential = o.User
	if o.Cgroup != nil {
		o.Cgroup.place(cmd.SysProcAttr)
	}
	start := (*exec.Cmd).Start
	if o.Starter != nil {
		start = o.Starter.start
	}
	pipes, err := StartPiped(cmd, o.Input, start)
	if err != nil {
		return nil, err
	}
	p := &Process{Pipes: pipes, cmd: cmd, cgroup: o.Cgroup, log: o.Log, gone: make(chan struct{}), parentPeak: ownPeakSize()}
	watchdog, err := p.startWatchdog()
	if err != nil {
		p.log.Warn("handler has no watchdog: processes that it starts may outlive a node that is killed", "pid", p.PID(), "error", err)
		return p, nil
	}
	p.keeper.Go(func() { p.keepWatchdog(watchdog) })
	return p, nil
}

// PID returns the number of the process and of its process group.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Signal sends sig to the process group. It does nothing after the process was reaped.
func (p *Process) Signal(sig syscall.Signal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.reaped {
		_ = syscall.Kill(-p.PID(), sig)
	}
}

// Stop sends SIGTERM to the process group after delay, and SIGKILL after grace from then on, unless the process ends
// before. It does not wait. A further call adds further signals.
func (p *Process) Stop(delay, grace time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.reaped {
		return
	}
	p.timers = append(p.timers,
		time.AfterFunc(delay, func() { p.Signal(syscall.SIGTERM) }),
		time.AfterFunc(delay+grace, func() { p.Signal(syscall.SIGKILL) }))
}

// Wait waits for the end of the process, kills the other processes of its process group and control group, removes the
// control group, and returns how the process ended.
func (p *Process) Wait() Exit {
	exit := p.reap()
	p.keeper.Wait()
	if p.cgroup != nil {
		p.cgroup.Remove()
	}
	return exit
}

// Gone returns a channel that is closed when the process has ended. Wait may still be killing other processes then.
func (p *Process) Gone() <-chan struct{} { return p.gone }

// reap waits for the end of the process and kills the rest of its group. The process stays a zombie until the group is
// killed, so that no other group can have the same number.
func (p *Process) reap() Exit {
	waitExited(p.PID())
	p.mu.Lock()
	defer p.mu.Unlock()
	_ = syscall.Kill(-p.PID(), syscall.SIGKILL)
	var exit Exit
	if p.cgroup != nil {
		p.cgroup.kill()
		exit.OutOfMemory = p.cgroup.outOfMemory()
	}
	err := p.cmd.Wait()
	p.reaped = true
	close(p.gone)
	for _, t := range p.timers {
		t.Stop()
	}
	if p.lifeline != nil {
		p.lifeline.Close()
	}
	var failed *exec.ExitError
	if err != nil && !errors.As(err, &failed) {
		exit.Err = err
	}
	exit.State = p.cmd.ProcessState
	if exit.State != nil {
		// Before it runs its program, the child is a copy of this process and counts as large.
		if peak := peakSize(exit.State); peak > p.parentPeak {
			exit.MaxRSS = peak
		}
	}
	return exit
}

// Credential returns the user with the given name or number and its groups. It returns nil, which is the node's own
// user, if name is empty.
func Credential(name string) (*syscall.Credential, error) {
	if name == "" {
		return nil, nil
	}
	u, err := user.Lookup(name)
	if err != nil {
		if u, err = user.LookupId(name); err != nil {
			return nil, fmt.Errorf("there is no user %q", name)
		}
	}
	ids, err := u.GroupIds()
	if err != nil {
		return nil, fmt.Errorf("the groups of user %q: %w", name, err)
	}
	out := new(syscall.Credential)
	for _, id := range append([]string{u.Uid, u.Gid}, ids...) {
		n, err := strconv.ParseUint(id, 10, 32)
		if err != nil {
			return nil, fmt.Errorf("user %q has the id %q: %w", name, id, err)
		}
		out.Groups = append(out.Groups, uint32(n))
	}
	out.Uid, out.Gid, out.Groups = out.Groups[0], out.Groups[1], out.Groups[2:]
	return out, nil
}
