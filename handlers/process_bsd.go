//go:build unix && !linux

package handlers

import "syscall"

// ownGroup makes a process the head of a group.
func ownGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
