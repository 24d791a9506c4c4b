package supervise

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// newGroup makes the child the leader of a process group, and the kernel kill it when the thread that starts it ends.
func newGroup() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// waitExited blocks until the child has ended, without reaping it.
func waitExited(pid int) {
	for unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil) == unix.EINTR {
	}
}

// ownPeakSize returns the peak memory of this process in bytes.
func ownPeakSize() int64 {
	var use syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &use) != nil {
		return 0
	}
	return int64(use.Maxrss) << 10
}

// peakSize returns the peak memory in bytes of a process that has ended.
func peakSize(s *os.ProcessState) int64 {
	if use, ok := s.SysUsage().(*syscall.Rusage); ok {
		return int64(use.Maxrss) << 10
	}
	return 0
}
