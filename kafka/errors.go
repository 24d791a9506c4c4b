package kafka

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Refusal is why brokers refuse a record, however often it is sent.
type Refusal struct {
	Class  string // of the error of a task
	Advice string // the meaning of the refusal, and the remedy
}

// The classes of [Refusal].
const (
	TooLarge      = "kafka_too_large"
	UnknownTopic  = "kafka_unknown_topic"
	InvalidTopic  = "kafka_invalid_topic"
	NotAuthorised = "kafka_not_authorised"
	InvalidRecord = "kafka_invalid_record"
)

// RefusalOf returns why brokers refuse a record for a topic, and whether they do: another error can pass.
func RefusalOf(topic string, err error) (Refusal, bool) {
	switch {
	case errors.Is(err, kerr.MessageTooLarge), errors.Is(err, kerr.RecordListTooLarge):
		return Refusal{TooLarge, "the record is larger than max.message.bytes of topic " + topic + " allows; send less, or raise it"}, true
	case errors.Is(err, kerr.UnknownTopicOrPartition), errors.Is(err, kerr.UnknownTopicID):
		return Refusal{UnknownTopic, "there is no topic " + topic + " that the user may see; create it, or correct the name"}, true
	case errors.Is(err, kerr.InvalidTopicException):
		return Refusal{InvalidTopic, "no topic can be called " + topic + ", or it takes no records; correct the name"}, true
	case errors.Is(err, kerr.TopicAuthorizationFailed):
		return Refusal{NotAuthorised, "the user may not write to topic " + topic + "; allow it to, by an ACL for WRITE"}, true
	case errors.Is(err, kerr.ClusterAuthorizationFailed):
		return Refusal{NotAuthorised, "the user may not write with idempotence; allow it to, by an ACL for IDEMPOTENT_WRITE"}, true
	case errors.Is(err, kerr.TransactionalIDAuthorizationFailed):
		return Refusal{NotAuthorised, "the user may not use the transactional id; allow it to, by ACLs for WRITE and DESCRIBE"}, true
	case errors.Is(err, kerr.InvalidRecord), errors.Is(err, kerr.PolicyViolation), errors.Is(err, kerr.InvalidTimestamp),
		errors.Is(err, kerr.UnsupportedForMessageFormat):
		return Refusal{InvalidRecord, "topic " + topic + " does not accept such a record; a compacted topic needs a key"}, true
	}
	return Refusal{}, false
}

// ReadRefusalOf returns why brokers refuse to show the records of a topic, and whether they do: another error can pass.
func ReadRefusalOf(topic string, err error) (Refusal, bool) {
	switch {
	case errors.Is(err, kerr.TopicAuthorizationFailed):
		return Refusal{NotAuthorised, "the user may not read topic " + topic + "; allow it to, by ACLs for READ and DESCRIBE"}, true
	case errors.Is(err, kerr.ClusterAuthorizationFailed):
		return Refusal{NotAuthorised, "the user may not list the topics; allow it to, by an ACL for DESCRIBE"}, true
	case errors.Is(err, kerr.GroupAuthorizationFailed):
		return Refusal{NotAuthorised, "the user may not commit to the consumer group; allow it to, by an ACL for READ of the group"}, true
	case errors.Is(err, kerr.InvalidTopicException):
		return Refusal{InvalidTopic, "no topic can be called " + topic + "; correct the name"}, true
	case errors.Is(err, kerr.UnknownTopicOrPartition), errors.Is(err, kerr.UnknownTopicID):
		return RefusalOf(topic, err)
	}
	return Refusal{}, false
}

// IsAnswer reports whether a broker has answered with err, so that the connection and its user are well.
func IsAnswer(err error) bool {
	_, ok := errors.AsType[*kerr.Error](err)
	return ok && !isRefusedUser(err)
}

func isRefusedUser(err error) bool {
	return errors.Is(err, kerr.SaslAuthenticationFailed) || errors.Is(err, kerr.UnsupportedSaslMechanism) || errors.Is(err, kerr.IllegalSaslState)
}

// isTLS reports whether err is of the handshake of TLS.
func isTLS(err error) bool {
	var (
		header tls.RecordHeaderError
		alert  tls.AlertError
		verify *tls.CertificateVerificationError
		host   x509.HostnameError
		remote *net.OpError
	)
	return errors.As(err, &header) || errors.As(err, &alert) || errors.As(err, &verify) || errors.As(err, &host) ||
		errors.As(err, &remote) && remote.Op == "remote error"
}

// isClosedAtOnce reports whether a broker closed a new connection without an answer.
func isClosedAtOnce(err error) bool {
	var eof *kgo.ErrFirstReadEOF
	return errors.As(err, &eof)
}

// isNetwork reports whether there was no answer at all.
func isNetwork(err error) bool {
	var network net.Error
	return errors.As(err, &network) || errors.Is(err, context.Canceled) || errors.Is(err, io.EOF)
}

// list returns addresses for an error.
func list(addresses []string) string {
	const most = 3
	if len(addresses) > most {
		return strings.Join(addresses[:most], ", ") + " and the others"
	}
	return strings.Join(addresses, ", ")
}
