// Package sharded makes one [storage.Store] of several stores, its databases. In production they are
// databases, each of which keeps the tasks of some shards. [task.ID.Shard] is the shard of a task.
// Only the databases know which shards they hold, and a shard may be moved from one to another at any
// time. So if a database does not have a row that a call expects there, the store asks all databases again.
//
// The contracts of the port hold with these limits:
//
//   - A call does its work in each database wholly or not at all. If a database fails, others may have
//     done their part.
//   - A key is unique within a database. Engines give a task with a key an ID of a shard that depends
//     on the key.
//   - Numbers, [task.Task.Seq], are in the order of insertion among the rows of a database. So tasks
//     of one queue and priority that became ready in the same microsecond are in another order
//     than that of their submits if they are in different databases.
//   - A query reads each database at another moment, and fails if one of them does. The rows of a
//     shard that is being moved may be missing; no query returns a row twice.
//   - Transactions of [Store.Update] and calls of one verb fail if they need a shard that is being
//     moved, and can be repeated.
package sharded
