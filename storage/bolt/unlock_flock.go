//go:build linux || darwin

package bolt

import (
	"os"
	"syscall"
)

// unlock lets others open a file that bbolt has locked.
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
