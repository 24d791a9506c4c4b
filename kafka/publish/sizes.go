package publish

import (
	"context"
	"strconv"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Bounds of the size of a batch of records, in bytes.
const (
	usualBatch   = 1_000_012 // the default of max.message.bytes
	leastBatch   = 512
	largestBatch = 64 << 20
)

// lookTime is how long the setting of a topic is waited for.
const lookTime = 5 * time.Second

// sizes knows how large the batches of a topic may be: brokers refuse a larger one with all of its records.
type sizes struct {
	mu      sync.Mutex
	byTopic map[string]*size // guarded by mu
}

type size struct {
	known chan struct{} // closed when bytes is set
	bytes int32
}

func newSizes() *sizes { return &sizes{byTopic: make(map[string]*size)} }

// learn looks up the setting of a topic if that was not done yet. Without an answer, such as for a user who may not see
// settings, the default is assumed.
func (s *sizes) learn(ctx context.Context, client *kgo.Client, topic string) {
	s.mu.Lock()
	known, ok := s.byTopic[topic]
	if !ok {
		known = &size{known: make(chan struct{})}
		s.byTopic[topic] = known
	}
	s.mu.Unlock()
	if !ok {
		known.bytes = settingOf(ctx, client, topic)
		close(known.known)
		return
	}
	select {
	case <-known.known:
	case <-ctx.Done():
	}
}

func settingOf(ctx context.Context, client *kgo.Client, topic string) int32 {
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	configs, err := kadm.NewClient(client).DescribeTopicConfigs(ctx, topic)
	if err != nil {
		return usualBatch
	}
	config, err := configs.On(topic, nil)
	if err != nil || config.Err != nil {
		return usualBatch
	}
	for _, c := range config.Configs {
		if c.Key == "max.message.bytes" {
			if n, err := strconv.Atoi(c.MaybeValue()); err == nil {
				return int32(max(leastBatch, min(n, largestBatch)))
			}
		}
	}
	return usualBatch
}

// of returns how large the batches of a topic may be.
func (s *sizes) of(topic string) int32 {
	s.mu.Lock()
	known := s.byTopic[topic]
	s.mu.Unlock()
	if known == nil {
		return usualBatch
	}
	select {
	case <-known.known:
		return known.bytes
	default:
		return usualBatch
	}
}
