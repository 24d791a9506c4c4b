// Package brokers makes the Apache Kafka connections of a configuration, and its sources of tasks.
package brokers

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/taskengine/taskengine/config"
	"github.com/taskengine/taskengine/internal/tlsfiles"
	"github.com/taskengine/taskengine/kafka"
	"github.com/taskengine/taskengine/kafka/source"
)

const probePatience = 5 * time.Second // with brokers that are only examined

// Connection returns a connection of a configuration.
func Connection(name string, k config.Kafka) kafka.Connection {
	c := kafka.Connection{Name: name, Brokers: k.Brokers, ClientID: k.ClientID}
	if t := k.TLS; t.CA != "" {
		c.TLS = &tlsfiles.Client{CA: t.CA, Cert: t.Cert, Key: t.Key, ServerName: t.ServerName}
		if t.CA == config.SystemCA {
			c.TLS.CA = ""
		}
	}
	if s := k.SASL; s.Mechanism != "" {
		secret := s.Password
		if s.Mechanism == kafka.OAuthBearer {
			secret = s.Token
		}
		c.SASL = &kafka.SASL{Mechanism: s.Mechanism, User: s.User, Secret: secret.Now}
	}
	return c
}

// Source is a source of tasks, and the connection to the brokers of its topics.
type Source struct {
	Connection kafka.Connection
	Definition source.Definition
}

// Sources returns the sources of records of a configuration, ordered by name.
func Sources(c *config.Config) []Source {
	all := make([]Source, 0, len(c.Sources))
	for _, name := range slices.Sorted(maps.Keys(c.Sources)) {
		s := c.Sources[name]
		if s.Slices != nil {
			continue
		}
		all = append(all, Source{Connection(s.Connection, c.Kafka[s.Connection]), s.Definition})
	}
	return all
}

// Probe returns why a node cannot use the connections and topics of a configuration. It waits a few seconds for an answer
// of each.
func Probe(ctx context.Context, c *config.Config) (found []config.Problem) {
	answers := make(map[string]bool) // whether the brokers of a connection do
	for _, name := range slices.Sorted(maps.Keys(c.Kafka)) {
		err := patiently(ctx, Connection(name, c.Kafka[name]).Probe)
		if answers[name] = err == nil; err != nil {
			found = append(found, c.ProblemAt(err.Error(), "kafka", name, "brokers"))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.Handlers)) {
		t := c.Handlers[name].Kafka
		if t == nil || t.Name == "" || !answers[t.Connection] {
			continue
		}
		connection := Connection(t.Connection, c.Kafka[t.Connection])
		err := patiently(ctx, func(ctx context.Context) error { return connection.ProbeTopic(ctx, t.Name) })
		if err != nil {
			found = append(found, c.ProblemAt(err.Error(), "handlers", name, "kafka", "topic"))
		}
	}
	if b := c.Bus; b.Driver == config.KafkaBus && !b.CreateTopics && answers[b.Connection] {
		connection := Connection(b.Connection, c.Kafka[b.Connection])
		if err := patiently(ctx, func(ctx context.Context) error { return connection.ProbeTopic(ctx, b.Topic) }); err != nil {
			found = append(found, c.ProblemAt(err.Error()+"; or write bus.create_topics: true", "bus", "topic"))
		}
	}
	for _, s := range Sources(c) {
		if answers[s.Connection.Name] {
			found = append(found, probeTopics(ctx, c, s)...)
		}
	}
	return found
}

// probeTopics returns why topics that a source names cannot be read.
func probeTopics(ctx context.Context, c *config.Config, s Source) (found []config.Problem) {
	var wrong map[string]error
	at := func(keys ...string) []string { return append([]string{"sources", s.Definition.Name, "kafka"}, keys...) }
	err := patiently(ctx, func(ctx context.Context) (err error) {
		wrong, err = s.Connection.ProbeReading(ctx, s.Definition.Topics...)
		return err
	})
	if err != nil {
		return []config.Problem{c.ProblemAt(err.Error(), at("connection")...)}
	}
	for i, topic := range s.Definition.Topics {
		if err := wrong[topic]; err != nil {
			found = append(found, c.ProblemAt(err.Error(), at("topics", strconv.Itoa(i))...))
		}
	}
	return found
}

// patiently runs probe for at most probePatience.
func patiently(ctx context.Context, probe func(context.Context) error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, probePatience, fmt.Errorf("no answer within %v", probePatience))
	defer cancel()
	return probe(ctx)
}
