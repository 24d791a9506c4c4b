package supervise

import (
	"os/exec"
	"runtime"
)

// Starter starts processes from one OS thread of its own. On Linux a child is killed when the thread that started it
// ends, so that thread must live as long as the children may. Its methods may be called from any goroutine.
type Starter struct {
	calls chan func()
}

// NewStarter returns a Starter, which the caller must close.
func NewStarter() *Starter {
	s := &Starter{calls: make(chan func())}
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with this goroutine
		for call := range s.calls {
			call()
		}
	}()
	return s
}

// Close ends the thread. Call it when the processes that it started have ended: on Linux others may be killed. The
// Starter must not be used afterwards.
func (s *Starter) Close() { close(s.calls) }

func (s *Starter) start(cmd *exec.Cmd) error {
	started := make(chan error, 1)
	s.calls <- func() { started <- cmd.Start() }
	return <-started
}
