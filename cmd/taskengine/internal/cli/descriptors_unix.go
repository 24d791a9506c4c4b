//go:build unix

package cli

import "syscall"

// maxDescriptors returns how many files this process may have open, zero if that is not known.
func maxDescriptors() uint64 {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return 0
	}
	return uint64(limit.Cur)
}
