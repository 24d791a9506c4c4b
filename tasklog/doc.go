// Package tasklog keeps what handlers log about their tasks, on the node where they run,
// and shows it by task.
//
// The log is a folder of segments: files that lines are appended to, one JSON object
// each, until they are full. All of them together are bounded, and the oldest segment
// goes first; so a task whose row is gone has a log for as long as its segments are
// there. Lines are bounded, too, and so is what one attempt may log: a handler that
// writes without end costs no more than its share.
//
// Nobody ever waits for the log. Lines go to a buffer that one goroutine writes to the
// disk, at most 200 ms later and without syncing: a crash of the process loses these
// milliseconds, one of the machine what its disk had not got. What does not fit is dropped
// and counted, and a line in its place says how many were. A disk that fails costs lines,
// never tasks: that is reported once, and the disk is tried again later.
package tasklog
