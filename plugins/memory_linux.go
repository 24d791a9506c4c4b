package plugins

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
)

// residentSize returns how many bytes a process holds in memory, 0 if that is unknown.
func residentSize(pid int) int64 {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	fields := bytes.Fields(b)
	if len(fields) < 2 {
		return 0
	}
	pages, _ := strconv.ParseInt(string(fields[1]), 10, 64)
	return pages * int64(os.Getpagesize())
}
