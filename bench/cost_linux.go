package bench

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/taskengine/taskengine/internal/machine"
)

// childUsage returns the usage of a running process.
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
		u.cpu = time.Duration(user+system) * time.Second / machine.Ticks
	}
	u.waits = machine.Number(procFile(pid, "status"), "voluntary_ctxt_switches:")
	u.written = machine.Written(strconv.Itoa(pid))
	return u
}

// resident returns the resident memory of a process; pid 0 is this process.
func resident(pid int) int64 { return machine.Number(procFile(pid, "status"), "VmRSS:") * 1024 }

// peakResident returns the peak of the resident memory of this process since forgetPeak.
func peakResident() int64 { return machine.Number(procFile(0, "status"), "VmHWM:") * 1024 }

func forgetPeak() {
	_ = os.WriteFile("/proc/self/clear_refs", []byte("5"), 0) // if it fails, the peak is that since the start of the process
}

func procFile(pid int, name string) string {
	process := "self"
	if pid != 0 {
		process = strconv.Itoa(pid)
	}
	return filepath.Join("/proc", process, name)
}
