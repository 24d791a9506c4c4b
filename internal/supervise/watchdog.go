//go:build linux || darwin

package supervise

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// guardScript waits until nothing holds the other end of its standard input, which is when
// the node is dead, however it died. Then it kills what is in the cage, if there is one,
// and its own process group, which is that of the handler.
const guardScript = `trap "" HUP INT TERM
read -r _
if [ -n "$1" ]; then echo 1 >"$1/cgroup.kill"; fi
kill -KILL 0`

// A process whose guard was killed is without one for so long, and longer each time.
const (
	guardRest    = 100 * time.Millisecond
	maxGuardRest = 10 * time.Second
)

// errReaped says that a process has ended, so that it needs no guard.
var errReaped = errors.New("the process has ended")

// startGuard starts a process in the group of p that outlives the node by a moment, so that
// nothing else in the group does. Linux kills a process with the one that started it, but
// not what that process has started itself; other systems do neither.
func (p *Process) startGuard() (*exec.Cmd, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.reaped {
		return nil, errReaped
	}
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	cage := ""
	if p.cage != nil {
		cage = p.cage.path
	}
	cmd := exec.Command("/bin/sh", "-c", guardScript, "guard", cage)
	cmd.Env, cmd.Dir, cmd.Stdin = []string{}, "/", r
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pgid: p.PID()}
	err = cmd.Start()
	r.Close()
	if err != nil {
		w.Close()
		return nil, err
	}
	if p.hold != nil {
		p.hold.Close()
	}
	p.hold, p.watched = w, cmd.Process
	return cmd, nil
}

// keepGuard waits for the end of the guard, which is that of the process, and starts
// another one if the process lives on: a handler can kill its guard, by mistake or not.
func (p *Process) keepGuard(guard *exec.Cmd) {
	for rest := guardRest; ; rest = min(2*rest, maxGuardRest) {
		if guard != nil {
			_ = guard.Wait() // it was killed, which is no news
		}
		select {
		case <-p.gone:
			return
		case <-time.After(rest):
		}
		again, err := p.startGuard()
		switch {
		case errors.Is(err, errReaped):
			return
		case err != nil:
			p.log.Warn("the guard of a handler was killed, and no other can be started", "pid", p.PID(), "error", err)
		case guard != nil:
			p.log.Warn("the guard of a handler was killed, and another was started", "pid", p.PID())
		}
		guard = again
	}
}
