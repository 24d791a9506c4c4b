//go:build unix

package handlers

import (
	"fmt"
	"os"
	"syscall"
)

// terminate asks the process and its group to end.
func terminate(p *os.Process) { syscall.Kill(-p.Pid, syscall.SIGTERM) }

// kill ends the process and its group. When the process has ended and is reaped, its
// number names what is left of the group: while that lives, the number is not given away.
// If nothing lives, it names nothing until the system has gone once around all numbers.
func kill(p *os.Process) { syscall.Kill(-p.Pid, syscall.SIGKILL) }

// signalOf returns the signal that ended a process, if one did.
func signalOf(s *os.ProcessState) (name string, killed bool) {
	status, ok := s.Sys().(syscall.WaitStatus)
	if !ok || !status.Signaled() {
		return "", false
	}
	name = fmt.Sprintf("killed by signal %d (%s)", int(status.Signal()), status.Signal())
	if status.CoreDump() {
		name += ", core dumped"
	}
	return name, true
}
