// Package postgres implements the ports of package coord on PostgreSQL alone, version 14
// or newer, through its functions in one schema (see [DDL]).
//
// A process holds roles, permits and members by one session: a row with a lease, which its
// heartbeat renews by one statement every third of the lease, however much the process holds.
// Only the database's clock decides whether a lease has ended. A session ends by a change made
// under the lock of its row, so a process that wakes up late finds nothing to renew. A process
// counts by its monotonic clock from the time before it sent its last renewal, and gives up a
// sixth of the lease before the database would: contexts of leaders end, and Join and Hold return
// an error before other processes may get the free roles and permits. Then it begins a new session; a member
// and a holder stay lost. Every heartbeat also reads the database's clock, so that all processes
// have one time: see [Coord.ClockAt].
//
// A program may use the bus and the clock alone, with the other ports of another coordinator: see
// [Coord.ReadClock]. It has a session then, too, without members, roles and permits.
//
// Everything but LISTEN works through PgBouncer in transaction mode. Notifications make things
// faster, and nothing but messages (see [Coord.Messages]) depends on them: without them roles, members
// and settings change with the heartbeats, news of permits is asked for while a holder waits for some,
// and comes with heartbeats otherwise, and the bus carries hints within the process only.
//
// Its promises beyond the ports:
//
//  1. The death of a process is known to the others within four thirds of the lease, and a
//     lease later if the database's clock is set back in that time (see [Upgrade]).
//  2. While the database cannot be used, all calls wait and try again; only Settings, Swap, Holders
//     and Draw return the error at once.
//
// A failover to a replica that lacks the last commits may undo a grant that its holder relies on
// until its next heartbeat, or the next order of any of its holders. The monotonic clock does not run
// while a machine is suspended. Package coord says why neither costs a task.
package postgres
