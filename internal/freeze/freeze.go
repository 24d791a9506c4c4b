//go:build unix

// Package freeze stops processes of tests as SIGSTOP does, and returns when they stand still.
package freeze

import (
	"fmt"
	"syscall"
	"time"
)

// patience is how long a process may take to stop on a machine with much to do.
const patience = time.Minute

// Stop stops a process, and returns when none of its threads runs. SIGSTOP alone does not wait: the thread that gets the
// signal may have to wait for a processor, and the others run until then.
func Stop(pid int) error {
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		return fmt.Errorf("stop process %d: %w", pid, err)
	}
	for end := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		stopped, err := isStopped(pid)
		if err != nil {
			return fmt.Errorf("wait until process %d has stopped: %w", pid, err)
		}
		if stopped {
			return nil
		}
		if time.Now().After(end) {
			return fmt.Errorf("process %d has not stopped within %v", pid, patience)
		}
	}
}

// Continue lets a process go on that Stop has stopped.
func Continue(pid int) error {
	if err := syscall.Kill(pid, syscall.SIGCONT); err != nil {
		return fmt.Errorf("continue process %d: %w", pid, err)
	}
	return nil
}
