//go:build unix

package kv

import (
	"errors"
	"syscall"
)

// isDiskFull reports whether an operation failed for want of room, or of the user's share of it.
func isDiskFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}
