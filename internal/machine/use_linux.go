package machine

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Ticks is how many units of CPU time in /proc are a second, on every Linux.
const Ticks = 100

// Busy returns the CPU time of everybody since the machine was started, with what the host
// of a virtual machine took from it.
func Busy() time.Duration {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0
	}
	first, _, _ := strings.Cut(string(text), "\n")
	total := time.Duration(0)
	for i, f := range strings.Fields(first) {
		const idle, iowait, guest = 4, 5, 9 // guests are in the time of users already
		if i == 0 || i == idle || i == iowait || i >= guest {
			continue
		}
		n, _ := strconv.ParseInt(f, 10, 64)
		total += time.Duration(n) * time.Second / Ticks
	}
	return total
}

// Written returns how many bytes a process, "self" or a number, and those of its children
// that have ended, have had written to disk.
func Written(process string) int64 {
	return Number(filepath.Join("/proc", process, "io"), "write_bytes:")
}
