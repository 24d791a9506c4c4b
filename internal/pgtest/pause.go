//go:build unix

package pgtest

import (
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// Pause stops all processes of the server, as a machine that hangs: connections stay open, the kernel
// accepts new ones, and nothing answers. The caller calls Resume before Close.
func (s *Server) Pause() error { return s.signalAll(syscall.SIGSTOP) }

// Resume continues all processes of the server.
func (s *Server) Resume() error { return s.signalAll(syscall.SIGCONT) }

// signalAll sends a signal to the server, and then to its children until it has no new ones.
func (s *Server) signalAll(signal syscall.Signal) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.postgres == nil {
		return errors.New("pgtest: the server is not running")
	}
	parent := s.postgres.PID()
	sent := []int{parent}
	if err := syscall.Kill(parent, signal); err != nil {
		return fmt.Errorf("pgtest: %v: %w", signal, err)
	}
	for {
		children, err := childrenOf(parent)
		if err != nil {
			return fmt.Errorf("pgtest: %v: %w", signal, err)
		}
		children = slices.DeleteFunc(children, func(pid int) bool { return slices.Contains(sent, pid) })
		if len(children) == 0 {
			return nil
		}
		for _, pid := range children {
			sent = append(sent, pid)
			if err := syscall.Kill(pid, signal); err != nil && !errors.Is(err, syscall.ESRCH) {
				return fmt.Errorf("pgtest: %v: %w", signal, err)
			}
		}
	}
}

// childrenOf returns the processes that a process has started.
func childrenOf(parent int) (children []int, err error) {
	said, err := exec.Command("ps", "-A", "-o", "pid=,ppid=").Output()
	if err != nil {
		return nil, fmt.Errorf("listing the processes: %w", err)
	}
	for line := range strings.Lines(string(said)) {
		fields := strings.Fields(line)
		if len(fields) != 2 || fields[1] != strconv.Itoa(parent) {
			continue
		}
		pid, err := strconv.Atoi(fields[0])
		if err != nil {
			return nil, err
		}
		children = append(children, pid)
	}
	return children, nil
}
