//go:build !linux

package main

import "syscall"

// ownGroup lets a child not hear of Ctrl-C.
func ownGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
