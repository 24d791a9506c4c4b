package supervise

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// newGroup makes the child the leader of its own process group and lets it die with
// the thread that starts it.
func newGroup() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// waitExited blocks until the child is dead, without reaping it.
func waitExited(pid int) {
	for unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil) == unix.EINTR {
	}
}

// ownPeakSize returns how many bytes this process has held in memory at most.
func ownPeakSize() int64 {
	var use syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &use) != nil {
		return 0
	}
	return int64(use.Maxrss) << 10
}

// peakSize returns how many bytes a process that has ended held in memory at most.
func peakSize(s *os.ProcessState) int64 {
	if use, ok := s.SysUsage().(*syscall.Rusage); ok {
		return int64(use.Maxrss) << 10
	}
	return 0
}
