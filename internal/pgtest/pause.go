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

	"github.com/taskengine/taskengine/internal/freeze"
)

// Pause stops all processes of the server, as a machine that hangs: connections stay open, the kernel
// accepts new ones, and nothing answers. The caller calls Resume before Close.
func (s *Server) Pause() error { return s.eachProcess(freeze.Stop) }

// Resume continues all processes of the server.
func (s *Server) Resume() error { return s.eachProcess(freeze.Continue) }

// eachProcess calls do for the server, and then for its children until it has no new ones.
func (s *Server) eachProcess(do func(pid int) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.postgres == nil {
		return errors.New("pgtest: the server is not running")
	}
	parent := s.postgres.PID()
	done := []int{parent}
	if err := do(parent); err != nil {
		return fmt.Errorf("pgtest: %w", err)
	}
	for {
		children, err := childrenOf(parent)
		if err != nil {
			return fmt.Errorf("pgtest: %w", err)
		}
		children = slices.DeleteFunc(children, func(pid int) bool { return slices.Contains(done, pid) })
		if len(children) == 0 {
			return nil
		}
		for _, pid := range children {
			done = append(done, pid)
			if err := do(pid); err != nil && !errors.Is(err, syscall.ESRCH) {
				return fmt.Errorf("pgtest: %w", err)
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
