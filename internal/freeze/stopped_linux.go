package freeze

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// isStopped reports whether no thread of a process runs, by the states in /proc (proc(5)).
func isStopped(pid int) (bool, error) {
	all, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	if err != nil {
		return false, err
	}
	if len(all) == 0 {
		return false, fmt.Errorf("it has ended: %w", syscall.ESRCH)
	}
	for _, file := range all {
		stat, err := os.ReadFile(file)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
			return false, nil // a thread has ended: the next look shows the others
		}
		if err != nil {
			return false, err
		}
		_, state, _ := bytes.Cut(stat[bytes.LastIndexByte(stat, ')')+1:], []byte(" "))
		if !bytes.ContainsAny(state[:1], "TtZX") {
			return false, nil
		}
	}
	return true, nil
}
