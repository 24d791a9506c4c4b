// Package reaper lets the program be process 1 of a container. The kernel gives orphaned processes to process 1, and an
// orphan that has ended stays a zombie until process 1 waits for it. A node cannot wait for orphans without also taking
// the exit status of the processes that it started itself. So process 1 runs the program again as a child, and only
// waits.
package reaper
