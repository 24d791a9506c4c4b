//go:build !linux

package postgres

import "time"

// suspended returns 0: only on Linux is it known which clock counts the time that the machine was
// suspended.
func suspended() (least, most time.Duration) { return 0, 0 }
