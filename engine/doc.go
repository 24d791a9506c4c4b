// Package engine stores tasks durably, finds the next one to run in O(log N), and calls its
// handler. It is the library behind the taskengine program.
//
// The steps of a task, and the file of each step:
//
//	submit.go   a request becomes a row; if a slot is free and no other task ranks before it,
//	            the task claims the slot at once (the fused grab)
//	commit.go   a writer commits rows and changes, many at a time: group commit
//	read.go     ready and due rows are read from the store as memory has room for them
//	handle.go   the handler of a grabbed task is called
//	cluster.go  nodes exchange hints, and decide about tasks that ran when a process died
//	clean.go    ended tasks are removed when their retention is over
//	manage.go   people cancel, resume, fail and reschedule tasks, and pause types
//	inspect.go  people read tasks, wait for them, and ask why they do not run
//	close.go    running handlers may end, and no task begins
//
// All decisions are made in internal/core: a deterministic state machine over internal/table, the
// trigger table. What concerns other nodes is in internal/cluster. This package waits, reads
// clocks and does I/O around both, and decides nothing.
//
// Concurrency: one mutex guards the core and everything that the core is told. No call of a store
// or of a handler is made while it is held; functions of an [Observer] are called with it held.
package engine
