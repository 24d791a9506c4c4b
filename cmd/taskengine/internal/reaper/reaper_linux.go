package reaper

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

// Needed reports whether this process is process 1.
func Needed() bool { return os.Getpid() == 1 }

// signalled is the base of the exit code of a program that a signal has ended, as in shells.
const signalled = 128

// Run starts this program again, with the same arguments, environment and standard streams, passes the signals that this
// process gets on to it, and waits for every process that ends. When the program has ended, Run returns its exit code, or
// 128 plus the number of the signal that ended it. The caller must not have other children. An error says that the
// program was not started.
func Run() (code int, err error) {
	signals := make(chan os.Signal, 16)
	signal.Notify(signals) // before the start, so that none is missed
	defer signal.Stop(signals)
	path, err := os.Executable()
	if err != nil {
		return 0, fmt.Errorf("find the program to start it as a child of process 1: %w", err)
	}
	// A terminal sends its signals to a process group. The child has one of its own, so that it gets them once.
	child, err := syscall.ForkExec(path, os.Args, &syscall.ProcAttr{
		Env: os.Environ(), Files: []uintptr{0, 1, 2}, Sys: &syscall.SysProcAttr{Setpgid: true},
	})
	if err != nil {
		return 0, fmt.Errorf("start %s as a child of process 1: %w", path, err)
	}
	ended := make(chan struct{})
	defer close(ended)
	go forward(signals, child, ended)
	return reap(child)
}

// forward sends signals to the child until ended is closed.
func forward(signals <-chan os.Signal, child int, ended <-chan struct{}) {
	for {
		select {
		case s := <-signals:
			switch s {
			case syscall.SIGCHLD, syscall.SIGURG, syscall.SIGPIPE: // they concern this process
			default:
				_ = syscall.Kill(child, s.(syscall.Signal))
			}
		case <-ended:
			return
		}
	}
}

// reap waits for processes until the child has ended, and returns the exit code of the child.
func reap(child int) (code int, err error) {
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, 0, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil:
			return 0, fmt.Errorf("wait for the child of process 1: %w", err)
		case pid == child && status.Signaled():
			return signalled + int(status.Signal()), nil
		case pid == child:
			return status.ExitStatus(), nil
		}
	}
}
