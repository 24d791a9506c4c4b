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
)

// Options say how a process is started.
type Options struct {
	As    *syscall.Credential   // as whom; nil is as the node's user
	Cage  *Cage                 // that it runs in, and that is removed with it; nil for none
	Start func(*exec.Cmd) error // what starts it; nil for its own Start
	Log   *slog.Logger          // what the handler has to say
}

// Process is a started program with its group, its guard and its cage. Its methods may be
// called from any goroutine, Wait from one.
type Process struct {
	cmd   *exec.Cmd
	cage  *Cage // nil if there can be none
	log   *slog.Logger
	begun int64          // bytes of memory that this process had held at most when it started the other
	guard sync.WaitGroup // of the goroutine that keeps a guard

	mu      sync.Mutex    // guards what follows, and with it that a signal finds the right group
	reaped  bool          // its number may be that of another process
	watched *os.Process   // the guard; nil if none was started
	hold    *os.File      // its end is the end of the guard; nil if none was started
	gone    chan struct{} // closed when reaped
}

// End says how a process ended.
type End struct {
	State       *os.ProcessState // nil if it is not known
	Err         error            // why it is not known
	OutOfMemory bool             // something in the cage was killed because it held more than allowed
	MaxRSS      int64            // bytes of memory that the process itself held at most; 0 if unknown: it was less than its parent's
}

// Start starts cmd, which leads a process group of its own. On Linux it dies with the
// thread that starts it. A cage is left to the caller if cmd cannot be started.
func Start(cmd *exec.Cmd, o Options) (*Process, error) {
	cmd.SysProcAttr = newGroup()
	cmd.SysProcAttr.Credential = o.As
	if o.Cage != nil {
		o.Cage.hold(cmd.SysProcAttr)
	}
	start := o.Start
	if start == nil {
		start = (*exec.Cmd).Start
	}
	if err := start(cmd); err != nil {
		return nil, err
	}
	p := &Process{cmd: cmd, cage: o.Cage, log: o.Log, gone: make(chan struct{}), begun: ownPeakSize()}
	guard, err := p.startGuard()
	if err != nil {
		p.log.Warn("handler has no guard: what it starts may outlive a node that is killed", "pid", p.PID(), "error", err)
		return p, nil
	}
	p.guard.Go(func() { p.keepGuard(guard) })
	return p, nil
}

// PID returns the number of the process and of its group.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Signal sends sig to the whole group, if the process is not dead.
func (p *Process) Signal(sig syscall.Signal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.reaped {
		_ = syscall.Kill(-p.PID(), sig)
	}
}

// Wait waits for the end of the process, kills what is left of its group and in its cage,
// and says how it ended.
func (p *Process) Wait() End {
	end := p.reap()
	p.guard.Wait()
	if p.cage != nil {
		p.cage.Remove()
	}
	return end
}

// Gone returns a channel that is closed when the process is dead: how it ended is decided
// then, though Wait may still clear up.
func (p *Process) Gone() <-chan struct{} { return p.gone }

// reap waits for the process's end and kills what is left of its group. The process
// stays a zombie until then, so that nobody else can have got the group's number.
func (p *Process) reap() End {
	waitExited(p.PID())
	p.mu.Lock()
	defer p.mu.Unlock()
	_ = syscall.Kill(-p.PID(), syscall.SIGKILL)
	var end End
	if p.cage != nil {
		p.cage.kill()
		end.OutOfMemory = p.cage.outOfMemory()
	}
	err := p.cmd.Wait()
	p.reaped = true
	close(p.gone)
	if p.hold != nil {
		p.hold.Close()
	}
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		end.Err = err
	}
	end.State = p.cmd.ProcessState
	if end.State != nil {
		// Until a child runs its program it is a copy of this process, and counts as large.
		if peak := peakSize(end.State); peak > p.begun {
			end.MaxRSS = peak
		}
	}
	return end
}

// Credential returns the user as whom a program runs, by name or number; nil, for the
// node's own, if name is empty.
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
