// Package source makes tasks of the records of topics of Apache Kafka.
package source
