//go:build !linux

package capacity

import "time"

// pauses lets goroutines wait.
type pauses struct{}

func (*pauses) wait(d time.Duration) error { time.Sleep(d); return nil }
func (*pauses) close()                     {}
