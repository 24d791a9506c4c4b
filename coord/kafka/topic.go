package kafka

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	connection "github.com/taskengine/taskengine/kafka"
)

const (
	retention = 10 * time.Minute       // of records in a topic that is created: they are for nodes that read now
	relook    = 100 * time.Millisecond // how long to wait for a topic that was just created
)

// look returns the topic as the brokers show it.
func (s *session) look(ctx context.Context) (kadm.TopicDetail, error) {
	topics, err := s.admin.ListTopics(ctx, s.bus.options.Topic)
	if err != nil {
		return kadm.TopicDetail{}, s.bus.unreachable(ctx, err)
	}
	topic := topics[s.bus.options.Topic]
	if topic.Err != nil {
		return topic, s.bus.explain(topic.Err)
	}
	if len(topic.Partitions) == 0 {
		return topic, s.bus.explain(kerr.UnknownTopicOrPartition)
	}
	return topic, nil
}

// topic returns the topic. It creates it if it is missing and may be created.
func (s *session) topic(ctx context.Context) (kadm.TopicDetail, error) {
	topic, err := s.look(ctx)
	if !s.bus.options.Create || !errors.Is(err, kerr.UnknownTopicOrPartition) {
		return topic, err
	}
	if err := s.create(ctx); err != nil {
		return topic, err
	}
	for {
		topic, err = s.look(ctx)
		if err == nil || !errors.Is(err, kerr.UnknownTopicOrPartition) {
			return topic, err
		}
		select {
		case <-ctx.Done():
			return topic, err
		case <-time.After(relook):
		}
	}
}

// create creates the topic, unless another node has.
func (s *session) create(ctx context.Context) error {
	o := s.bus.options
	age := strconv.FormatInt(retention.Milliseconds(), 10)
	policy := "delete"
	settings := map[string]*string{"cleanup.policy": &policy, "retention.ms": &age, "segment.ms": &age}
	made, err := s.admin.CreateTopic(ctx, int32(o.Partitions), -1, settings, o.Topic)
	if made.Err != nil {
		err = made.Err
	}
	switch {
	case err == nil:
		s.bus.log.Info("created the topic of the bus", "topic", o.Topic, "partitions", o.Partitions, "retention", retention)
		return nil
	case errors.Is(err, kerr.TopicAlreadyExists):
		return nil
	case errors.Is(err, kerr.TopicAuthorizationFailed), errors.Is(err, kerr.ClusterAuthorizationFailed):
		return fmt.Errorf("kafka.%s: the user may not create topic %s; allow it to, by an ACL for CREATE, or create the topic yourself: %w", o.Connection.Name, o.Topic, err)
	case made.Err != nil:
		return fmt.Errorf("kafka.%s: cannot create topic %s with %d partitions; create it yourself: %w", o.Connection.Name, o.Topic, o.Partitions, err)
	}
	return s.bus.unreachable(ctx, err)
}

// endsOf returns the ends of the partitions, as far as they are known. It notes which cannot be read.
func (s *session) endsOf(ctx context.Context) (map[int32]int64, error) {
	listed, err := s.admin.ListEndOffsets(ctx, s.bus.options.Topic)
	var some *kadm.ShardErrors
	if err != nil && (!errors.As(err, &some) || some.AllFailed) {
		return nil, s.bus.unreachable(ctx, err)
	}
	ends := make(map[int32]int64)
	var unread error
	for p := range s.partitions {
		end, ok := listed.Lookup(s.bus.options.Topic, p)
		switch {
		case ok && end.Err == nil:
			ends[p] = end.Offset
		case ok:
			unread = fmt.Errorf("partition %d: %w", p, end.Err)
		default:
			unread = fmt.Errorf("partition %d: no broker that leads it answers", p)
		}
	}
	if _, ok := ends[0]; !ok { // without it nothing reaches all nodes
		return nil, s.bus.explain(unread)
	}
	s.bus.mu.Lock()
	defer s.bus.mu.Unlock()
	if s.bus.unread = nil; unread != nil {
		s.bus.unread = s.bus.explain(unread)
	}
	return ends, nil
}

// unreachable returns the error of a request that no broker has answered, or that was refused.
func (b *Bus) unreachable(ctx context.Context, err error) error {
	if errors.Is(err, kerr.TopicAuthorizationFailed) {
		return b.explain(err)
	}
	if ctx.Err() != nil {
		err = fmt.Errorf("no answer within %v: %w", patience, err)
	}
	return b.options.Connection.Unreachable(err)
}

// explain returns an error that says which connection and topic it is about, and the remedy if there is one.
func (b *Bus) explain(err error) error {
	o := b.options
	switch {
	case errors.Is(err, kerr.UnknownTopicOrPartition) && !o.Create:
		return fmt.Errorf("kafka.%s: there is no topic %s that the user may see; create it with %d partitions, or have the nodes create it by bus.create_topics: %w", o.Connection.Name, o.Topic, o.Partitions, err)
	case errors.Is(err, kerr.TopicAuthorizationFailed):
		return fmt.Errorf("kafka.%s: the user may not read and write topic %s; allow it to, by ACLs for READ and WRITE: %w", o.Connection.Name, o.Topic, err)
	case errors.Is(err, kgo.ErrMaxBuffered):
		return fmt.Errorf("kafka.%s: topic %s takes hints more slowly than they come: %w", o.Connection.Name, o.Topic, err)
	}
	if r, ok := connection.RefusalOf(o.Topic, err); ok {
		return fmt.Errorf("kafka.%s: %s: %w", o.Connection.Name, r.Advice, err)
	}
	return fmt.Errorf("kafka.%s: topic %s: %w", o.Connection.Name, o.Topic, err)
}
