// Package kafka connects to Apache Kafka, and says what its errors mean.
package kafka
