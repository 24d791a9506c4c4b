//go:build !linux && !darwin

package supervise

import (
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"syscall"
	"time"
)

var errPlatform = errors.New("on Linux and macOS only")

// Cgroup exists on Linux only.
type Cgroup struct{}

func (c *Cgroups) create(Limits) (*Cgroup, error) { return nil, errPlatform }
func (c *Cgroups) findBase() (string, error)      { return "", errPlatform }
func removeStale(string)                          {}

// Remove does nothing.
func (*Cgroup) Remove() {}

// User is the user that a process runs as.
type User struct{}

// Options say how a process is started.
type Options struct {
	User    *User
	Cgroup  *Cgroup
	Starter *Starter
	Log     *slog.Logger
	Input   []byte
}

// Process is a program that was started, with its pipes. Processes that it starts are not supervised.
type Process struct {
	Pipes

	cmd  *exec.Cmd
	gone chan struct{}
}

// Exit says how a process ended.
type Exit struct {
	State       *os.ProcessState // nil if it is not known
	Err         error            // why it is not known
	OutOfMemory bool
	MaxRSS      int64
}

// Start starts cmd.
func Start(cmd *exec.Cmd, o Options) (*Process, error) {
	pipes, err := StartPiped(cmd, o.Input, (*exec.Cmd).Start)
	if err != nil {
		return nil, err
	}
	return &Process{pipes, cmd, make(chan struct{})}, nil
}

// PID returns the number of the process.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Signal kills the process: there is no signal that asks it to end.
func (p *Process) Signal(syscall.Signal) { _ = p.cmd.Process.Kill() }

// Stop kills the process after delay.
func (p *Process) Stop(delay, _ time.Duration) {
	time.AfterFunc(delay, func() { p.Signal(syscall.SIGKILL) })
}

// Gone returns a channel that is closed when the process has ended.
func (p *Process) Gone() <-chan struct{} { return p.gone }

// Wait waits for the end of the process and returns how it ended.
func (p *Process) Wait() Exit {
	err := p.cmd.Wait()
	close(p.gone)
	var failed *exec.ExitError
	if errors.As(err, &failed) {
		err = nil
	}
	return Exit{State: p.cmd.ProcessState, Err: err}
}

// Credential returns an error unless name is empty.
func Credential(name string) (*User, error) {
	if name == "" {
		return nil, nil
	}
	return nil, errPlatform
}
