//go:build !linux

package bench

func childUsage(int) usage { return usage{} }
func resident(int) int64   { return 0 }
func peakResident() int64  { return 0 }
func forgetPeak()          {}
