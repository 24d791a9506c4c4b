//go:build !linux

package bench

import "time"

func childUsage(int) usage       { return usage{} }
func machineTime() time.Duration { return 0 }
func written(string) int64       { return 0 }
func resident(int) int64         { return 0 }
func peakResident() int64        { return 0 }
func forgetPeak()                {}
