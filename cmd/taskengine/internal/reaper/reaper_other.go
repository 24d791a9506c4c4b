//go:build !linux

package reaper

import "errors"

// Needed reports false: this system has no containers.
func Needed() bool { return false }

// Run is not called, because [Needed] reports false.
func Run() (code int, err error) { return 0, errors.ErrUnsupported }
