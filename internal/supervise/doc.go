// Package supervise runs the programs of handlers so that nothing of them is left when they
// have ended, or when the node has, however it ended.
//
// A [Process] is the leader of a process group, with a guard in it: a shell that kills the
// group when the node is dead. On Linux it also runs in a [Cage], a control group of cgroup
// v2, wherever the node may make one. Package plugins and the exec handler use it; ADR 17
// says why it is done so.
package supervise
