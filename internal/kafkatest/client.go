//go:build unix

package kafkatest

import (
	"errors"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
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
