//go:build !unix

package handlers

import (
	"os"
	"syscall"
)

func ownGroup() *syscall.SysProcAttr { return nil }

// terminate ends the process: there is no way to ask.
func terminate(p *os.Process) { p.Kill() }

func kill(p *os.Process) { p.Kill() }

func signalOf(*os.ProcessState) (name string, killed bool) { return "", false }
