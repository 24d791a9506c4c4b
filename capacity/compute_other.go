//go:build !linux

package capacity

import "time"

// compute uses a core for d, including the time that other threads take from it.
func compute(d time.Duration) {
	until := time.Now().Add(d)
	churnWhile(func() bool { return time.Now().Before(until) })
}
