//go:build !linux

package machine

import (
	"time"
)

func describe(*Info, string) {}

// Busy returns 0: it is not implemented for this system.
func Busy() time.Duration { return 0 }

// Written returns 0: it is not implemented for this system.
func Written(string) int64 { return 0 }

// Pause sleeps for d.
func Pause(d time.Duration) { time.Sleep(d) }

// Sharpen does nothing: there is no way to make pauses more exact.
func Sharpen() {}
