package main

import "syscall"

// ownGroup lets a child not hear of Ctrl-C, and end when its parent does, at once: its
// data is of no use to anybody then.
func ownGroup() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGQUIT}
}
