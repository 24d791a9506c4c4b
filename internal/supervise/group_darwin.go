package supervise

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// newGroup makes the child the leader of its own process group. macOS cannot tie its
// life to ours: there the SDKs end a process whose host is gone.
func newGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// waitExited blocks until the child is dead, without reaping it. (waitid would also
// return here for a child that is merely stopped.)
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

// ownPeakSize returns how many bytes this process has held in memory at most.
func ownPeakSize() int64 {
	var use syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &use) != nil {
		return 0
	}
	return use.Maxrss
}

// peakSize returns how many bytes a process that has ended held in memory at most.
func peakSize(s *os.ProcessState) int64 {
	if use, ok := s.SysUsage().(*syscall.Rusage); ok {
		return use.Maxrss
	}
	return 0
}
