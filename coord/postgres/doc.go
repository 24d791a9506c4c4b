// Package postgres implements the ports of package coord on PostgreSQL alone, version 14
// or newer, through its functions in one schema (see [DDL]).
//
// A process holds everything by one session, a row with a lease that its heartbeat
// renews: one statement every third of the lease, whatever the process holds. Only the
// database's clock decides whether a lease is over, and the end of a session is a change
// like any other, made under its row's lock: who wakes up late finds nothing to renew.
// A process counts from the moment before it sent its last renewal, by its monotonic
// clock, and gives up a sixth of the lease before the database would: contexts of
// leaders end, permits are lost, and Join returns an error before others may get what
// became free. Then it begins a new session; a member stays lost.
//
// Everything but LISTEN works through PgBouncer in transaction mode. Notifications make
// things faster and nothing depends on them: without, roles and members change with the
// heartbeats, settings too, waiters for permits ask again by themselves, and the bus
// carries hints within the process only.
//
// What it promises beyond the ports:
//
//  1. Permits are granted in the order of coming, so a large request is never starved.
//  2. The death of a process is known to the others within four thirds of the lease, and a
//     lease later where the database's clock is set back meanwhile (see [Upgrade]).
//  3. While the database is out of reach everything waits and tries again; only Set
//     returns the error at once.
//
// A failover to a replica that lacks the last commits may undo a grant that somebody
// relies on until its next heartbeat. Nor does the monotonic clock run while a machine
// sleeps. Package coord says why neither costs a task.
package postgres
