//go:build unix

package kafkatest

import (
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// metadataAge is how long a client of a test uses what it knows of brokers and topics.
const metadataAge = 50 * time.Millisecond

// Client returns a client for brokers, with options. It soon notices which brokers lead the partitions of a topic, and which
// topics there are: by itself a client looks again after five seconds. The caller closes it.
func Client(brokers []string, options ...kgo.Opt) (*kgo.Client, error) {
	return kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(brokers...), kgo.MetadataMinAge(metadataAge)}, options...)...)
}
