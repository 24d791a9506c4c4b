//go:build !linux

package capacity

import "time"

// compute uses a core for d, what others take of it meanwhile included.
func compute(d time.Duration) {
	until := time.Now().Add(d)
	churnWhile(func() bool { return time.Now().Before(until) })
}
