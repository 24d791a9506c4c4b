//go:build unix

package kv

import (
	"errors"
	"syscall"
)

// isDiskFull reports whether an operation failed because the disk or the user's quota is full.
func isDiskFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}
