// Package publish has the built-in handler that sends tasks to topics of Apache Kafka: docs/kafka.md describes it.
package publish
