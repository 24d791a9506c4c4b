package config

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"time"

	"github.com/taskengine/taskengine/internal/suggest"
)

// Kafka is how to connect to the brokers of a cluster of Apache Kafka.
type Kafka struct {
	Brokers  []string
	ClientID string
	TLS      TLS
	SASL     KafkaSASL
}

// KafkaSASL is the authentication of a client to brokers. The zero value is none.
type KafkaSASL struct {
	Mechanism string // as package kafka calls it
	User      string
	Password  Text
	Token     Text
}

// Topic is a topic of Apache Kafka that a handler sends its tasks to.
type Topic struct {
	Connection    string
	Name          string            // the topic, or
	From          string            // its place in a task
	Key           string            // a place; "": none
	Value         string            // a place
	Headers       map[string]string // places
	Slots         int
	Timeout       time.Duration
	Transactional bool
}

// usualConnection is the name of the connection that is used if none is named.
const usualConnection = "main"

// The mechanisms of SASL.
const (
	saslPlain  = "plain"
	saslSCRAM  = "scram-sha-256"
	saslLong   = "scram-sha-512"
	saslBearer = "oauthbearer"
)

var kafkaTable = table[Kafka]{of: "connections", keys: isName, likely: "NAME", is: connectionTable, fresh: func(*decoder, string) Kafka { return defaultKafka() }}

var connectionTable = &object{what: "a connection", fields: []field{
	{name: "brokers", doc: "The addresses of some brokers of the cluster. The node learns the others from them.", required: true, is: sequence[string]{is: endpoint("kafka1.example.com:9092", "kafka.NAME.tls"), single: true, least: 1, most: 100}, at: in(func(k *Kafka) *[]string { return &k.Brokers })},
	{name: "client_id", doc: "The name of the node in the logs and quotas of the brokers.", def: "taskengine", is: words("a name", isName), at: in(func(k *Kafka) *string { return &k.ClientID })},
	{name: "tls", doc: "Encrypts the connections with the brokers. The node reads the files again for each connection.", otherwise: "not encrypted", is: tlsTable, at: in(func(k *Kafka) *TLS { return &k.TLS })},
	{name: "sasl", doc: "How the node authenticates itself.", otherwise: "not at all", is: saslTable, at: in(func(k *Kafka) *KafkaSASL { return &k.SASL })},
}}

var saslTable = &object{what: "sasl", fields: []field{
	{name: "mechanism", doc: "The mechanism of SASL. `plain` and `oauthbearer` send the secret as it is: use `tls` with them.", required: true, is: oneOf(nil, option[string]{saslPlain, saslPlain}, option[string]{saslSCRAM, saslSCRAM}, option[string]{saslLong, saslLong}, option[string]{saslBearer, saslBearer}), at: in(func(s *KafkaSASL) *string { return &s.Mechanism })},
	{name: "user", doc: "The name of the user, for all mechanisms but `oauthbearer`.", otherwise: "none", is: words("the name of a user", notEmpty), at: in(func(s *KafkaSASL) *string { return &s.User })},
	{name: "password", doc: "The password of `user`. Write a reference. A file is read again for each connection.", otherwise: "none", is: guarded{secret("a password", notEmpty), masked}, at: in(func(s *KafkaSASL) *Text { return &s.Password })},
	{name: "token", doc: "The token of `oauthbearer`. Write a reference to a file, which another program renews: it is read again for each connection.", otherwise: "none", is: guarded{secret("a token", notEmpty), masked}, at: in(func(s *KafkaSASL) *Text { return &s.Token })},
}}

var topicTable = &object{what: "a handler with kafka", fields: []field{
	{name: "kafka", doc: "The topic of Apache Kafka to which the tasks are sent, a record for each task. The result has the partition and the offset of the record. See [Kafka](kafka.md).", required: true, is: recordTable, at: in(func(t *Topic) *Topic { return t })},
	{name: "slots", doc: "How many records may be on their way at once. Tasks without a slot wait in the engine: they have not begun.", def: "1000", is: whole[int](1, 1<<20, "a number"), at: in(func(t *Topic) *int { return &t.Slots })},
}}

var recordTable = &object{what: "kafka", fields: []field{
	{name: "connection", doc: "The name of a connection of `kafka`.", def: usualConnection, is: words("the name of a connection", notEmpty), at: in(func(t *Topic) *string { return &t.Connection })},
	{name: "topic", doc: "The name of the topic. Write this or `topic_from`.", otherwise: "none", is: words("the name of a topic", isTopic), at: in(func(t *Topic) *string { return &t.Name })},
	{name: "topic_from", doc: "The place in a task that has the name of its topic: `payload.NAME`, `headers.NAME`, `key` or `ordering_key`. One topic gets half of the slots at most, so that one which takes no records does not delay the others.", otherwise: "none", is: words("a place, such as headers.topic", CheckPlace), at: in(func(t *Topic) *string { return &t.From })},
	{name: "key", doc: "The place in a task that has the key of the record. Records with the same key are in one partition. A task without a value there becomes a record without a key.", otherwise: "records have no key", is: words("a place, such as ordering_key", CheckPlace), at: in(func(t *Topic) *string { return &t.Key })},
	{name: "value", doc: "The place in a task that has the value of the record: `payload` or a place like those of `key`. Text is sent as it is, and another JSON value as it is written in the payload. A task without a value there becomes a record without a value, which deletes its key in a compacted topic.", def: "payload", is: words("a place, such as payload.event", isValuePlace), at: in(func(t *Topic) *string { return &t.Value })},
	{name: "headers", doc: "Headers of the record, with their places in the task. A record has the headers `taskengine-task-id`, `taskengine-type`, and if its task has them `traceparent` and `tracestate` as well.", is: table[string]{of: "places", keys: isRecordHeader, likely: "HEADER", is: words("a place, such as headers.source", CheckPlace)}, at: in(func(t *Topic) *map[string]string { return &t.Headers })},
	{name: "timeout", doc: "How long an attempt waits until the brokers have confirmed its record. Then it is in doubt. Another attempt on the same node waits for the same record.", def: "30s", is: period(aDuration, true), at: in(func(t *Topic) *time.Duration { return &t.Timeout })},
	{name: "transactional", doc: "Whether records are sent in transactions. Programs that read committed records then see no record of an attempt that has failed. The transactional id is `taskengine-`, the name of the node, `-` and the name of the handler: each node needs a `node.name` of its own.", def: "false", is: boolean(), at: in(func(t *Topic) *bool { return &t.Transactional })},
}}

func defaultKafka() Kafka { return Kafka{ClientID: "taskengine"} }

func defaultTopic() Topic {
	return Topic{Connection: usualConnection, Value: "payload", Slots: 1000, Timeout: 30 * time.Second}
}

var topicName = regexp.MustCompile(`^[a-zA-Z0-9._-]{1,249}$`)

func isTopic(s string) error {
	if !topicName.MatchString(s) || s == "." || s == ".." {
		return errors.New("cannot be the name of a topic; use up to 249 letters, digits, . _ and -")
	}
	return nil
}

func isValuePlace(s string) error {
	if s == "payload" {
		return nil
	}
	return CheckPlace(s)
}

func isRecordHeader(s string) error {
	switch s {
	case "":
		return errors.New("is empty; write the name of a header")
	case "taskengine-task-id", "taskengine-type", "traceparent", "tracestate":
		return errors.New("is a header that each record has already; remove it")
	}
	return nil
}

// kafka refuses connections that are not complete, and handlers that name none.
func (d *decoder) kafka() {
	for _, name := range slices.Sorted(maps.Keys(d.cfg.Kafka)) {
		k := d.cfg.Kafka[name]
		at := func(keys ...string) []string { return append([]string{"kafka", name}, keys...) }
		if k.TLS.Cert != "" && k.TLS.Key == "" {
			d.conflict(at("tls"), "has a certificate without its key; add key")
		}
		if k.TLS.Cert == "" && k.TLS.Key != "" {
			d.conflict(at("tls"), "has a key without its certificate; add cert")
		}
		written := d.cfg.tree.find("kafka").child(name).child("sasl") // a reference may have failed
		k.SASL.misfits(written.child("password") != nil, written.child("token") != nil, func(key, text string) { d.conflict(at("sasl", key), text) })
	}
	for _, name := range slices.Sorted(maps.Keys(d.cfg.Handlers)) {
		t := d.cfg.Handlers[name].Kafka
		if t == nil {
			continue
		}
		at := func(key string) []string { return []string{"handlers", name, "kafka", key} }
		if (t.Name == "") == (t.From == "") {
			d.conflict(at("topic"), "there has to be either a topic or a topic_from; write one of them")
		}
		d.connection(t.Connection, at("connection")...)
	}
}

// connection refuses the name of a connection, at a path, if there is no such connection.
func (d *decoder) connection(name string, path ...string) {
	if _, ok := d.cfg.Kafka[name]; ok || d.cfg.tree.find("kafka").child(name) != nil {
		return
	}
	connections := slices.Sorted(maps.Keys(d.cfg.Kafka))
	advice := "add it to kafka"
	if near := suggest.Nearest(name, connections); near != "" {
		advice += fmt.Sprintf(", or did you mean %s?", near)
	} else if len(connections) > 0 {
		advice += ", or name " + suggest.Either(connections)
	}
	d.conflict(path, fmt.Sprintf("there is no connection %q; %s", name, advice))
}

// misfits calls found with each key that does not fit the mechanism, and with the remedy. password and token say whether
// these keys are given.
func (s *KafkaSASL) misfits(password, token bool, found func(key, text string)) {
	switch {
	case s.Mechanism == "":
	case s.Mechanism == saslBearer && (s.User != "" || password):
		found("mechanism", "is oauthbearer, which has a token and neither user nor password; remove these")
	case s.Mechanism == saslBearer && !token:
		found("mechanism", "is oauthbearer; add token")
	case s.Mechanism != saslBearer && token:
		found("token", "belongs to the mechanism oauthbearer; remove it")
	case s.Mechanism != saslBearer && (s.User == "" || !password):
		found("mechanism", "needs a user and a password; add both")
	}
}
