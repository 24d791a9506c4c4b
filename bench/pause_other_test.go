//go:build !linux

package bench

import "time"

// pause sleeps for d.
func pause(d time.Duration) { time.Sleep(d) }
