package supervise

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// newGroup makes the child the leader of a process group. macOS cannot kill it together with this process: there the
// SDKs exit when the host is gone.
func newGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// waitExited blocks until the child has ended, without reaping it. On macOS waitid would also return for a child that
// is stopped.
func waitExited(pid int) {
	kq, err := unix.Kqueue()
	if err != nil {
		return
	}
	defer unix.Close(kq)
	exit := make([]unix.Kevent_t, 1)
	unix.SetKevent(&exit[0], pid, unix.EVFILT_PROC, unix.EV_ADD|unix.EV_ONESHOT)
	exit[0].Fflags = unix.NOTE_EXIT
	for {
		if _, err := unix.Kevent(kq, exit, make([]unix.Kevent_t, 1), nil); err != unix.EINTR {
			return
		}
	}
}

// ownPeakSize returns the peak memory of this process in bytes.
func ownPeakSize() int64 {
	var use syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &use) != nil {
		return 0
	}
	return use.Maxrss
}

// peakSize returns the peak memory in bytes of a process that has ended.
func peakSize(s *os.ProcessState) int64 {
	if use, ok := s.SysUsage().(*syscall.Rusage); ok {
		return use.Maxrss
	}
	return 0
}
