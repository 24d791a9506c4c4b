package handlers

import "syscall"

// ownGroup makes a process the head of a group, and lets it die with this process: with
// the thread that started it, to be exact, and threads of Go live on unless a goroutine
// ends while it is locked to one.
func ownGroup() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
