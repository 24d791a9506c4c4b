// Package tasklog keeps what handlers log about their tasks, on the node where they run, and
// reads it by task.
//
// The log is a folder of segments. A segment is a file to which lines are appended, one JSON
// object each, until it is full. The size of all segments together is bounded, and the oldest
// segment is removed first; so the log of a task whose row was removed exists as long as its
// segments. The size of a line is bounded, too, and so are the lines of one attempt: a handler
// that logs without end costs no more than its share.
//
// Logging never waits. Lines go to a buffer, which one goroutine writes to the disk at most
// 200 ms later, without syncing: a crash of the process loses these milliseconds, a crash of the
// machine what was not on its disk. A line that does not fit is dropped and counted, and a line
// in its place has the number. A disk that fails costs lines, never tasks: the failure is
// reported once, and the disk is tried again later.
package tasklog
