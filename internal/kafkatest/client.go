//go:build unix

package kafkatest

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// metadataAge is how long a client of a test uses its metadata of brokers and topics.
const metadataAge = 50 * time.Millisecond

// Client returns a client for brokers, with options. It soon notices which brokers lead the partitions of a topic, and which
// topics there are: by itself a client looks again after five seconds. The caller closes it.
func Client(brokers []string, options ...kgo.Opt) (*kgo.Client, error) {
	return kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(brokers...), kgo.MetadataMinAge(metadataAge)}, options...)...)
}

// CreateTopic creates topics, once the brokers are there for their replicas: on a machine with much other work a broker may be
// taken for dead for a moment.
func CreateTopic(tb testing.TB, admin *kadm.Client, partitions int32, replicas int16, settings map[string]*string, topics ...string) {
	tb.Helper()
	for _, topic := range topics {
		begin := time.Now()
		made, err := admin.CreateTopic(tb.Context(), partitions, replicas, settings, topic)
		for errors.Is(made.Err, kerr.InvalidReplicationFactor) && time.Since(begin) < patience {
			time.Sleep(20 * time.Millisecond)
			made, err = admin.CreateTopic(tb.Context(), partitions, replicas, settings, topic)
		}
		if made.Err != nil || err != nil {
			tb.Fatalf("create topic %s: %v, %v", topic, made.Err, err)
		}
	}
}

// DeleteTopics deletes topics, and returns when no broker knows them. The controller answers before the brokers learn of a
// deletion, and until then they accept records, which are lost with the old topic.
func DeleteTopics(tb testing.TB, brokers []string, topics ...string) {
	tb.Helper()
	client, err := Client(brokers)
	if err != nil {
		tb.Fatal(err)
	}
	defer client.Close()
	deleted, err := kadm.NewClient(client).DeleteTopics(tb.Context(), topics...)
	if err = errors.Join(err, deleted.Error()); err != nil {
		tb.Fatalf("delete topics %v: %v", topics, err)
	}
	begin := time.Now()
	for _, broker := range client.DiscoveredBrokers() {
		for {
			known, err := knows(tb.Context(), broker, topics)
			if err == nil && !known {
				break
			}
			if time.Since(begin) > patience {
				tb.Fatalf("topics %v are deleted, but a broker knows one of them: %v, %v", topics, known, err)
			}
			time.Sleep(20 * time.Millisecond)
		}
	}
}

// knows reports whether a broker knows one of several topics.
func knows(ctx context.Context, broker *kgo.Broker, topics []string) (bool, error) {
	request := kmsg.NewPtrMetadataRequest()
	for _, topic := range topics {
		of := kmsg.NewMetadataRequestTopic()
		of.Topic = &topic
		request.Topics = append(request.Topics, of)
	}
	answer, err := broker.RetriableRequest(ctx, request)
	if err != nil {
		return false, err
	}
	return slices.ContainsFunc(answer.(*kmsg.MetadataResponse).Topics, func(t kmsg.MetadataResponseTopic) bool {
		return t.ErrorCode != kerr.UnknownTopicOrPartition.Code
	}), nil
}
