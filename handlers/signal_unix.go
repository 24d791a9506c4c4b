//go:build unix

package handlers

import (
	"fmt"
	"os"
	"syscall"
)

// signalOf returns the signal that killed a process, if one did.
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
