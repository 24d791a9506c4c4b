//go:build unix

package descriptors

import "syscall"

// Limit returns the number of files that this process may have open, zero if it is not known.
func Limit() uint64 {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return 0
	}
	return uint64(limit.Cur)
}
