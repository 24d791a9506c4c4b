// Package kafka carries hints and messages between nodes by a topic of Apache Kafka.
//
// A record has hints of the shards of one partition, or one message. The partition of a shard is the rest of its number
// by the number of partitions. Hints about all shards, and messages, are in partition 0, which each node reads. Beyond
// it a node reads the partitions of the shards that it needs, see [coord.Selective].
//
// A node reads from the end that a partition has when it begins, without a consumer group: nothing is committed, and a
// node that reads slowly delays no other. It reads nothing that was written before, also after an outage, and
// goes on from the end if it is far behind. The store has the tasks of the hints that it has missed.
//
// Each record names the cluster of its nodes, so several clusters can share a topic.
package kafka
