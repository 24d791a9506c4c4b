// Package reaper lets the program be process 1 of a container. The kernel gives process 1 every process whose parent has
// ended, and such a process stays a zombie until process 1 waits for it. A node cannot do so for processes that it did
// not start without also waiting for those that it did. So process 1 runs the program again as a child, and only waits.
package reaper
