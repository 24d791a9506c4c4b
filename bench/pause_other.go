//go:build !linux

package bench

import "time"

// pause sleeps for d.
func pause(d time.Duration) { time.Sleep(d) }

// sharpen does nothing: there is no way to make pauses more exact.
func sharpen() {}
