//go:build linux || darwin

package bolt

import (
	"os"
	"syscall"
)

// unlock removes the lock of bbolt from a file, so that another process can open it.
func unlock(f *os.File) error {
	c, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = c.Control(func(fd uintptr) { failed = syscall.Flock(int(fd), syscall.LOCK_UN) })
	if err != nil {
		return err
	}
	return failed
}
