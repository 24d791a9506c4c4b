package plugins

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
)

// residentSize returns the resident memory of a process in bytes, 0 if it is unknown.
func residentSize(pid int) int64 {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	fields := bytes.Fields(b)
	if len(fields) < 2 {
		return 0
	}
	pages, _ := strconv.ParseInt(string(fields[1]), 10, 64)
	return pages * int64(os.Getpagesize())
}
