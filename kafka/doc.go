// Package kafka connects to Apache Kafka and explains its errors.
package kafka
