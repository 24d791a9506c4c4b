// Package engine stores tasks durably, finds the next one to run in O(log N), and calls its
// handler. It is the library behind the taskengine program.
//
// The files are named after what an engine does:
//
//	open*.go     an engine is opened on a store, among other nodes or alone
//	submit*.go   a request becomes a row; if a slot is free and no other task ranks before it,
//	             the task claims the slot at once (the fused grab)
//	drive*.go    writers commit rows and changes, many at a time (group commit), and ready and due
//	             rows are read from the store as memory has room for them
//	handle*.go   the handler of a grabbed task is called, and reports
//	recover*.go  tasks are found that differ in the store and in memory, or that wait for a key of the codec
//	manage*.go   operators cancel, resume, fail, reschedule, change and delete tasks, pause types and change limits
//	relay*.go    rows leave for another database
//	inspect*.go  users read tasks, wait for them, and ask why they do not run
//	drop*.go     the oldest tasks of a full backlog are canceled
//	clean.go     ended tasks are removed when their retention is over
//	close.go     running handlers may end, and no task begins
//	children.go  a task adds children, and users read and cancel trees of tasks
//	content.go   the contents of tasks are encoded and decoded
//	clock.go     the time by which tasks run is read, and a test advances it
//
// Decisions are made by two deterministic state machines. internal/core decides which tasks run,
// over internal/table, the trigger table. internal/shell decides about the content of each commit, and
// about the effects of its outcome. internal/cluster deals with other nodes. This
// package waits, reads clocks and does I/O around them, and decides nothing.
//
// Concurrency: one mutex guards the shell and the core. No call of a store or of a handler is made
// while it is held; functions of an [Observer] are called with it held.
package engine
