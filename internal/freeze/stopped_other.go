//go:build unix && !linux

package freeze

import (
	"bytes"
	"fmt"
	"os/exec"
	"strconv"
)

// isStopped reports whether a process is stopped, by ps.
func isStopped(pid int) (bool, error) {
	state, err := exec.Command("ps", "-o", "state=", "-p", strconv.Itoa(pid)).Output()
	if err != nil {
		return false, fmt.Errorf("ps: %w", err)
	}
	return bytes.HasPrefix(bytes.TrimSpace(state), []byte("T")), nil
}
