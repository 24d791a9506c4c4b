// Package sharded makes one [storage.Store] of several, its places: in production they are
// databases, each of which keeps the tasks of some shards. [task.ID.Shard] says of which shard
// a task is, and the places themselves say which shards they hold: nobody else knows, and a
// shard may be moved from one to another at any time. So whoever finds a place without what he
// looked for has all of them asked again.
//
// What stores promise holds with these limits:
//
//   - What one call does is done in each place wholly or not at all. If a place fails, others
//     may have done their part.
//   - A key keeps out other tasks of its place. Engines give tasks that have one an ID of a
//     shard that depends on the key.
//   - Numbers, [task.Task.Seq], are in the order of insertion among the rows of a place. So tasks
//     of one queue and priority that became ready in the same microsecond are in another order
//     than that of their submits if they are in different places.
//   - A query sees each place at a moment of its own, and fails if one of them does. The rows of
//     a shard that is being moved may be missing; no query has a row twice.
//   - Transactions of [Store.Update] and calls of one verb fail where they meet a shard that is
//     moved meanwhile, and can be made again.
package sharded
