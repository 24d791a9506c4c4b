// Package consume reads topics of Apache Kafka and adds a task for each record: docs/kafka.md describes it.
//
// A source is a task of a reserved type. It looks for the partitions of its topics, and carries out the orders of people.
// Each partition is another task of that type: its handler reads the partition, and commits the position, which is the
// checkpoint of the task, in the transaction of the store that adds the tasks of the records. An attempt lasts about a
// minute, so that partitions move to the nodes that own their shards. Two attempts at once cannot both commit.
//
// The files:
//
//	sources.go                       the sources of a node, their handlers and policies
//	id.go, state.go, position.go     the contents of the rows of sources and partitions
//	discover.go, orders.go           the run of a source
//	ask.go, silent.go                questions to brokers, some of which may hang
//	read.go, reset.go                the run of a partition
//	prepare.go, commit.go            how records become rows, and rows are committed
//	relay.go                         tasks that belong to another database than their partition
//	feed.go                          the client that fetches the records of all partitions of a source
//	group.go, pace.go                the positions in the consumer group, and how often they are committed
//	unread.go                        records that could not become tasks
//	manage.go, plan.go               what people ask and order
package consume
