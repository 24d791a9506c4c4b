package bench

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// ticks is how many units of CPU time in /proc are a second, on every Linux.
const ticks = 100

// childUsage returns what a running process has used.
func childUsage(pid int) usage {
	var u usage
	stat, err := os.ReadFile(procFile(pid, "stat"))
	if err != nil {
		return u
	}
	_, rest, _ := strings.Cut(string(stat), ") ") // the name may have spaces
	if f := strings.Fields(rest); len(f) > 12 {
		user, _ := strconv.ParseInt(f[11], 10, 64)
		system, _ := strconv.ParseInt(f[12], 10, 64)
		u.cpu = time.Duration(user+system) * time.Second / ticks
	}
	u.waits = field(procFile(pid, "status"), "voluntary_ctxt_switches:")
	u.written = written(strconv.Itoa(pid))
	return u
}

// machineTime returns the CPU time of everybody since the machine was started, with what
// the host of a virtual machine took from it.
func machineTime() time.Duration {
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
		total += time.Duration(n) * time.Second / ticks
	}
	return total
}

// written returns how many bytes a process, and those of its children that have ended,
// have had written to disk.
func written(process string) int64 {
	return field(filepath.Join("/proc", process, "io"), "write_bytes:")
}

// resident returns how much memory of a process is in use; 0 is this one.
func resident(pid int) int64 { return field(procFile(pid, "status"), "VmRSS:") * 1024 }

// peakResident returns the most memory of this process that was in use since
// forgetPeak.
func peakResident() int64 { return field(procFile(0, "status"), "VmHWM:") * 1024 }

func forgetPeak() {
	_ = os.WriteFile("/proc/self/clear_refs", []byte("5"), 0) // else the peak is that of the process's life
}

func procFile(pid int, name string) string {
	process := "self"
	if pid != 0 {
		process = strconv.Itoa(pid)
	}
	return filepath.Join("/proc", process, name)
}

// field returns the number after a name at the start of a line; 0 if there is none.
func field(file, name string) int64 {
	text, err := os.ReadFile(file)
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, name); ok {
			n, _ := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
			return n
		}
	}
	return 0
}
