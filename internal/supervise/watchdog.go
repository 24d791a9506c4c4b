//go:build linux || darwin

package supervise

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// watchdogScript waits for the end of its standard input, which comes when the node is dead, even if it was killed.
// Then it kills the processes in the control group, if there is one, and its own process group, which is the handler's.
const watchdogScript = `trap "" HUP INT TERM
read -r _
if [ -n "$1" ]; then echo 1 >"$1/cgroup.kill"; fi
kill -KILL 0`

// A watchdog that was killed is started again after minRestart, then after twice that, up to maxRestart.
const (
	minRestart = 100 * time.Millisecond
	maxRestart = 10 * time.Second
)

// errReaped says that a process has ended and needs no watchdog.
var errReaped = errors.New("the process has ended")

// startWatchdog starts a process in the group of p that kills the group when the node is dead. It is needed because
// Linux kills a process with the thread that started it, but not the processes that it has started itself; other
// systems do neither.
func (p *Process) startWatchdog() (*exec.Cmd, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.reaped {
		return nil, errReaped
	}
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	cgroup := ""
	if p.cgroup != nil {
		cgroup = p.cgroup.path
	}
	cmd := exec.Command("/bin/sh", "-c", watchdogScript, "watchdog", cgroup)
	cmd.Env, cmd.Dir, cmd.Stdin = []string{}, "/", r
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pgid: p.PID()}
	err = cmd.Start()
	r.Close()
	if err != nil {
		w.Close()
		return nil, err
	}
	if p.lifeline != nil {
		p.lifeline.Close()
	}
	p.lifeline, p.watchdog = w, cmd.Process
	return cmd, nil
}

// keepWatchdog starts another watchdog whenever one ends before the process: a handler can kill its watchdog, by
// mistake or not. It returns when the process has ended. Watchdog is nil if the first one could not be started.
func (p *Process) keepWatchdog(watchdog *exec.Cmd) {
	for delay := minRestart; ; delay = min(2*delay, maxRestart) {
		if watchdog != nil {
			_ = watchdog.Wait() // it always ends by a signal
		}
		select {
		case <-p.gone:
			return
		case <-time.After(delay):
		}
		next, err := p.startWatchdog()
		switch {
		case errors.Is(err, errReaped):
			return
		case err != nil:
			p.log.Warn("the watchdog of a handler was killed, and no other can be started", "pid", p.PID(), "error", err)
		case watchdog != nil:
			p.log.Warn("the watchdog of a handler was killed, and another was started", "pid", p.PID())
		}
		watchdog = next
	}
}
