// Package tasklog keeps the log lines of handlers about their tasks, in files of the node where they run or in a store, and
// reads them by task. In a store the lines are pieces, see [Stored] and [storage.LogKeeper]; the rest of this text is about files.
//
// The log is a folder of segments. A segment is a file of lines, one JSON object each. Lines are
// appended until it is full. The size of all segments together is bounded, and the oldest segment is
// removed first; so the log of a task exists as long as its segments, even after its row was removed.
// The size of a line is bounded, too, and so are the lines of one attempt: a handler that logs without
// end costs no more than its share.
//
// Logging never waits. Lines go to a buffer, which one goroutine writes to the disk at most 200 ms
// later, without syncing: a crash of the process loses these milliseconds, and a crash of the machine
// loses the lines that were not on its disk. A line that does not fit is dropped and counted, and a
// line in its place has the number. A disk that fails costs lines, never tasks: the failure is
// reported once, and the disk is tried again later.
package tasklog
