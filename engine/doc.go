// Package engine keeps tasks durably, finds the next one to run in O(log N), and hands
// it to a handler. It is the library behind the taskengine program.
//
// The way of one task, and where to find each step:
//
//	submit.go   a request becomes a row; a free slot is claimed for it at once if nobody
//	            has a better claim (the fused grab)
//	write.go    rows and changes are committed, many at a time: group commit
//	load.go     ready and due rows come from the store as memory has room for them
//	handle.go   the handler is called for a task that was grabbed
//	cluster.go  what other nodes are told and tell; what ran when a process died is decided about
//	clean.go    what has ended is removed when its retention is over
//	manage.go   people cancel, resume, fail and reschedule, and pause types
//	inspect.go  people look, wait, and ask why
//	close.go    what runs may end, and nothing more begins
//
// What is decided on that way, is decided in internal/core: a deterministic state
// machine over internal/table, the trigger table. What has to do with other nodes is in
// internal/cluster. The engine around both waits, reads
// clocks and does I/O, and decides nothing.
//
// Concurrency: one mutex guards the core and everything it is told. It is never held
// across I/O or a handler.
package engine
