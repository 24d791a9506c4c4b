//go:build unix

// Package supervisetest examines processes in tests.
package supervisetest

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
)

// Alive reports whether pid is a process that has not ended; a zombie has.
func Alive(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		if _, noProc := os.Stat("/proc/self/stat"); noProc != nil {
			return !errors.Is(syscall.Kill(pid, 0), syscall.ESRCH)
		}
		return false
	}
	_, after, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(after, "Z") && !strings.HasPrefix(after, "X")
}
