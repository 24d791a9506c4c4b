// Package postgres keeps tasks in PostgreSQL, version 14 or newer, where several nodes
// and the applications beside them can reach them.
//
// Rows that are not finished are in the table task: what a grab changes is in no index,
// so that it is an update within the page. What is finished moves to the table ended,
// which is divided by how long its rows are kept and by when they ended: what nobody
// wants any more is dropped as a whole and not deleted row by row. A unique key is held
// by a row of its own in the table key, for as long as the task's row is kept, wherever
// that is.
//
// Every verb is one statement, or a few in one pipeline, for any number of tasks: one
// round trip. A verb on a Store is a transaction of its own without another round trip.
// Nothing relies on the state of a session, so that connections may be pooled by
// transaction, as PgBouncer does.
package postgres
