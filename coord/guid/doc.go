// Package guid elects leaders by messages alone. It needs a [coord.Messages], and no database, quorum or list of nodes.
// It says which node does a duty, and not which nodes are alive.
//
// The callers of Lead for a role are its candidates. Each has an id that is unique and grows with time, and announces
// it every quarter of the lease. A candidate that knows of no older one (with a lower id) for a sixth of the lease
// leads, and asks all others during that time to announce themselves. A candidate of which nothing was received for a
// lease counts as gone, and one that resigns says so. A leader that learns of an older candidate gives up: its context
// ends, and it waits again, as a new candidate. So the oldest candidate leads, and one that comes back disturbs none.
// Ids have the wall clock of a process in them; if that is slow, its candidates seem to be older and take over when
// they begin. It plays no other part.
//
// Below, E is the lease, W a sixth of it, the time to settle, and D the longest time that a message is under
// way. Candidates are connected if each receives the messages of the others.
//
//  1. Once nothing changes any more and no message is lost, the oldest of the connected candidates leads, and it alone,
//     after E + W + 2D at most. Messages from before may make that longer by the time that they are late.
//  2. When a leader is killed or cut off, the next oldest leads E + W + 2D later at most.
//  3. When a leader resigns, or its function returns, the next oldest leads W + 2D later at most, if the message arrives.
//  4. A candidate that joins never leads beside another one if D is shorter than a sixteenth of the lease, no message is
//     lost and no process stops for a time. For up to W + 2D there may be no leader.
//  5. If the nodes are divided into parts that do not reach each other, one candidate of each part leads. There are no
//     more leaders than parts, except for the times above.
//  6. Ids need not be known in advance, nothing is stored, and no majority is needed: the last node left leads.
//
// It does not promise that there is never more than one leader. Without a quorum or a store that all agree on, the two
// sides of a divided network cannot exclude each other, and messages that are lost or late are such a division for a
// time. Nor does it count fences. So use it only for duties that may be done by none or by several nodes for a time,
// with effort wasted and no harm done. The duties of the engine are such: every change of a task is a compare-and-swap,
// and the second leader's fails. If "at most one" must hold, use coord/postgres, coord/etcd or coord/zk.
//
// A node that does not even receive its own messages is isolated: it cannot know of others. By default an isolated node
// leads, because it may be the only one, and a duty done twice is better than one that is not done. With
// [Options].MustHear a candidate leads only if it has received its own question, and gives up a lease after it sent
// the newest of its messages that came back. On a bus that passes a message to all connected nodes or to none, such as
// PostgreSQL, it has then given up before one that has heard it leads; only a candidate that was not connected before
// the leader was cut off may lead beside it, for less than a lease.
//
// A process that was stopped (SIGSTOP, a suspended virtual machine, a garbage collector that takes long) cannot give up
// in that time. Another one leads a lease after its last message, and the function of the stopped one may go on beside it
// until its process has noticed: the first thing that a candidate does after a pause of a lease is to give up. The
// clock of Go does not run while a machine is suspended; after such a pause a leader gives up only when it hears of an
// older candidate, or it is the oldest one, and the other gives up when it has heard of it.
package guid
