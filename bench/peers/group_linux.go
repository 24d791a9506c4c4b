package main

import "syscall"

// ownGroup protects a child from Ctrl-C, and kills it when its parent ends: its data is useless then.
func ownGroup() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGQUIT}
}
