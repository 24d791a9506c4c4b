// Package postgres keeps tasks in PostgreSQL, version 14 or newer, where several nodes and other
// applications can use them.
//
// Tasks that have not ended are rows of the table task. A grab changes no indexed column, so that
// PostgreSQL updates the row within its page. When a task ends, its row moves to the table ended,
// which is partitioned by how long rows are kept and by when they ended, and whose partitions are
// dropped as a whole. A unique key is a row of the table key, for as long as the row of its task is
// kept in one of the two tables.
//
// Of the tasks of an ordering key one is the head. The others are not queued, and a partial index has
// them by their seats. The statements that promote are the last ones of a transaction, and are in the round trip of its other statements.
//
// Transactions take locks in this order: the rows of tasks in the order of their ids, by each statement
// apart; then advisory locks of ordering keys, in the order of their numbers. A batch claims unique keys before,
// and inserts its rows after: one that is the head of its ordering key is written as such. A transaction that has
// locked keys does not wait for rows, but for a transaction that adds a task of the same id: it leaves a key without a head if another transaction has locked
// the row that would be the head. That transaction promotes the key after it, or, if its caller keeps it
// open, the engine does when it has ended. [storage.Tasks.Headless] finds the keys of which all of that
// was lost. A transaction that waits for a key gets its lock when the other one has ended, and sees what
// it has done, because each statement has a snapshot of its own.
//
// A row that is added in a transaction of the application, or by the function add, is behind at first, and a node
// promotes it when the transaction has committed. To be the head at once it would have to lock its ordering key, and all
// tasks of the key would wait for as long as the application keeps its transaction open.
//
// Every verb is one statement, or a few in one pipeline, for any number of tasks: one round trip. A
// verb on a Store is a transaction of its own without another round trip. Nothing relies on the
// state of a session, so that connections may be pooled by transaction, as PgBouncer does.
//
// To read it, begin at the top of this list:
//
//	postgres.go    Open, connections, errors
//	verbs.go       how a verb becomes a round trip; get, delete, note
//	insert.go, swap.go, exit.go, rewrite.go, batch.go, terms.go
//	               adding and changing tasks
//	order.go       giving ordering keys their heads
//	query.go, inspect.go, inspect_key.go, count.go, export.go
//	               reading tasks
//	shared.go      what several nodes, and several databases, need
//	tx.go, attach.go
//	               transactions of the store, and of the application
//	locks.go       the known locks of others, and their holders
//	sessions.go    which node the sessions of a store are of
//	partitions.go, expire.go
//	               the partitions of tasks that have ended
//	statements.go  the SQL that writes, statements_exit.go that which ends attempts, statements_query.go
//	               that which reads, statements_order.go that of ordering keys; row.go, encode.go and array.go have the values
//
// Package schema makes the tables, package health examines a database, and package placement
// divides shards among databases and moves them.
package postgres
