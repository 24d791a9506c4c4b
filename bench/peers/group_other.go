//go:build !linux

package main

import "syscall"

// ownGroup protects a child from Ctrl-C.
func ownGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
