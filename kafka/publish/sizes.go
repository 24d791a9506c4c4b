package publish

import (
	"context"
	"errors"
	"fmt"
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
	known chan struct{} // closed when the fields below are set
	bytes int32
	err   error // why bytes is not known
}

func newSizes() *sizes { return &sizes{byTopic: make(map[string]*size)} }

// learn looks up the setting of a topic if that was not done yet. For a user who may not see settings, and for a topic that
// is missing, the default is assumed. It returns an error if no broker answers.
func (s *sizes) learn(ctx context.Context, client *kgo.Client, topic string) error {
	s.mu.Lock()
	known, ok := s.byTopic[topic]
	if !ok {
		known = &size{known: make(chan struct{})}
		s.byTopic[topic] = known
	}
	s.mu.Unlock()
	if !ok {
		// Not ctx: others wait for the answer, too.
		looking, cancel := context.WithTimeout(context.WithoutCancel(ctx), lookTime)
		known.bytes, known.err = settingOf(looking, client, topic)
		cancel()
		if known.err != nil {
			s.mu.Lock()
			delete(s.byTopic, topic)
			s.mu.Unlock()
		}
		close(known.known)
	}
	select {
	case <-known.known:
		return known.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func settingOf(ctx context.Context, client *kgo.Client, topic string) (int32, error) {
	configs, err := kadm.NewClient(client).DescribeTopicConfigs(ctx, topic)
	var refused *kadm.AuthError
	switch {
	case errors.As(err, &refused):
		return usualBatch, nil
	case err != nil:
		return 0, fmt.Errorf("read the settings of topic %s: %w", topic, err)
	}
	config, err := configs.On(topic, nil)
	if err != nil || config.Err != nil {
		return usualBatch, nil
	}
	for _, c := range config.Configs {
		if c.Key == "max.message.bytes" {
			if n, err := strconv.Atoi(c.MaybeValue()); err == nil {
				return int32(max(leastBatch, min(n, largestBatch))), nil
			}
		}
	}
	return usualBatch, nil
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
