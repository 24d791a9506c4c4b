// Package schedule decides when a schedule adds tasks: every night at 02:30 in Berlin, or every 15 minutes. It decides only:
// it has no clock, goroutine or I/O. Package scheduler runs schedules on an engine, and package calendar has the times.
//
// A schedule is itself a task, which runs again at each time of its calendar. Its payload is its name and [Definition], and
// its checkpoint its [State]. So a schedule is kept by every store, moves with copies and backups, and is run by the node
// that owns its shard. The task of a fire is added in the transaction that arms the schedule again (see [task.WithTasks]),
// with an id made from the schedule and the time ([task.ID.Child]): no fire is lost or happens twice.
package schedule
