// Package supervise starts the programs of handlers, with pipes to their standard input, output and error, and makes
// sure that no process is left when a program has ended or when the node has, even if the node was killed.
//
// A [Process] leads a process group of its own. A watchdog in the group, a small shell, kills the group when the node
// is dead. On Linux the process also runs in a [Cgroup], a control group of cgroup v2, if the node may create one:
// that holds processes that have left the process group. ADR 17 has the reasons.
//
// Package plugins and the exec handler use it.
package supervise
