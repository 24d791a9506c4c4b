//go:build !linux && !darwin

package supervise

import (
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"syscall"
)

var errHere = errors.New("on Linux and macOS only")

// Cage is what Linux has.
type Cage struct{}

func (c *Cages) make(Limits) (*Cage, error) { return nil, errHere }
func (c *Cages) where() (string, error)     { return "", errHere }
func sweepCages(string)                     {}

// Remove does nothing.
func (*Cage) Remove() {}

// User is as whom a process runs.
type User struct{}

// Options say how a process is started.
type Options struct {
	As    *User
	Cage  *Cage
	Start func(*exec.Cmd) error
	Log   *slog.Logger
}

// Process is a started program, and nothing of what that starts.
type Process struct {
	cmd  *exec.Cmd
	gone chan struct{}
}

// End says how a process ended.
type End struct {
	State       *os.ProcessState // nil if it is not known
	Err         error            // why it is not known
	OutOfMemory bool
	MaxRSS      int64
}

// Start starts cmd.
func Start(cmd *exec.Cmd, _ Options) (*Process, error) {
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return &Process{cmd, make(chan struct{})}, nil
}

// PID returns the number of the process.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Signal kills the process: there is no way to ask.
func (p *Process) Signal(syscall.Signal) { _ = p.cmd.Process.Kill() }

// Gone returns a channel that is closed when the process is dead.
func (p *Process) Gone() <-chan struct{} { return p.gone }

// Wait waits for the end of the process, and says how it ended.
func (p *Process) Wait() End {
	err := p.cmd.Wait()
	close(p.gone)
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		err = nil
	}
	return End{State: p.cmd.ProcessState, Err: err}
}

// Credential returns an error for a user that is named.
func Credential(name string) (*User, error) {
	if name == "" {
		return nil, nil
	}
	return nil, errHere
}
