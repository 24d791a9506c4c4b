package conform

import "syscall"

// strays returns nothing: macOS does not show the environment of processes. The process
// group is looked at in any case.
func strays(string) []stray { return nil }

// populated reports whether a process group has a process.
func populated(group int) bool { return syscall.Kill(-group, 0) == nil }
