//go:build linux || darwin

package plugins

import (
	"os"
	"os/exec"
	"syscall"
)

// guardScript waits until nobody holds the other end of its standard input, which is when
// the node is dead, however it died. Then it kills what is in the cage, if there is one,
// and its own process group, which is that of the handler.
const guardScript = `trap "" HUP INT TERM
read -r _
if [ -n "$1" ]; then echo 1 >"$1/cgroup.kill"; fi
kill -KILL 0`

// guard is a process in the group of a handler that outlives the node by a moment, so
// that nothing else in the group does. Linux kills a process with the one that started it,
// but not what that process has started itself; other systems do neither.
type guard struct {
	cmd  *exec.Cmd
	hold *os.File // closed by the end of the node, and by that of the handler
}

// startGuard starts a guard in the group of the process pid.
func startGuard(pid int, cage string) (*guard, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command("/bin/sh", "-c", guardScript, "guard", cage)
	cmd.Env, cmd.Dir, cmd.Stdin = []string{}, "/", r
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pgid: pid}
	err = cmd.Start()
	r.Close()
	if err != nil {
		w.Close()
		return nil, err
	}
	return &guard{cmd, w}, nil
}

// dismiss waits for the end of the guard, whose group has been killed.
func (g *guard) dismiss() {
	g.hold.Close()
	_ = g.cmd.Wait() // it was killed, which is no news
}
