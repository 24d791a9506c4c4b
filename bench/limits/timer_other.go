//go:build !linux

package limits

func kernelTimerProbes() []probe { return nil }
