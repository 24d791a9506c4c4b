package publish

import (
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/taskengine/taskengine/kafka"
	"github.com/taskengine/taskengine/task"
)

var (
	errTimeout = errors.New("the timeout of the handler is over")
	// errNotSent is wrapped by errors of records of which nothing was sent.
	errNotSent = errors.New("it was not sent")
	// errNotRead is wrapped by the error of a record that the brokers have, and that a reader has not got in time.
	errNotRead = errors.New("a record of the transaction cannot be read")
)

// spoils reports whether a client that has failed with err refuses all further records: it has got no producer id. When the
// user has the right, another client is needed.
func spoils(err error) bool {
	return errors.Is(err, kerr.ClusterAuthorizationFailed) || errors.Is(err, kerr.TransactionalIDAuthorizationFailed)
}

// unconfirmed returns the error of an attempt that ended, for a reason, before its record was confirmed.
func (h *Handler) unconfirmed(over error, topic string) error {
	return task.InDoubt(task.WithClass("kafka_unconfirmed", fmt.Errorf(
		"kafka.%s: no broker has confirmed the record for topic %s: %w; it may arrive yet, and another attempt on this node does not send it again; look at the partitions of the topic and their in-sync replicas",
		h.config.Connection.Name, topic, over)))
}

// failure returns the error of an attempt of which the record was not confirmed.
func (h *Handler) failure(topic string, err error) error {
	if r, ok := kafka.RefusalOf(topic, err); ok {
		return task.Permanent(task.WithClass(r.Class, fmt.Errorf("kafka.%s: %s: %w", h.config.Connection.Name, r.Advice, err)))
	}
	failed := task.WithClass("kafka_failed", fmt.Errorf("kafka.%s: topic %s: %w", h.config.Connection.Name, topic, err))
	if errors.Is(err, errNotSent) {
		return failed
	}
	return task.InDoubt(failed)
}
