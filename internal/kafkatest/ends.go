//go:build unix

package kafkatest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
)

// patience is how long a topic may have no leader after its broker has started.
const patience = 2 * time.Minute

// Ends returns the sum of the next offsets of all partitions of a topic: the number of its records and markers of
// transactions. Only records of transactions that have ended count if committed is true. A broker that has just started
// listens before its partitions have a leader, so Ends asks again until all have one.
func (c *Cluster) Ends(tb testing.TB, topic string, committed bool) (n int64) {
	tb.Helper()
	client, err := Client(c.Brokers())
	if err != nil {
		tb.Fatal(err)
	}
	defer client.Close()
	list := kadm.NewClient(client).ListEndOffsets
	if committed {
		list = kadm.NewClient(client).ListCommittedOffsets
	}
	n, err = endsOf(tb.Context(), patience, topic, list)
	if err != nil {
		tb.Fatal(err)
	}
	return n
}

// endsOf sums the offsets of list. It retries list after errors, for some time.
func endsOf(ctx context.Context, within time.Duration, topic string, list func(context.Context, ...string) (kadm.ListedOffsets, error)) (n int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	for {
		offsets, failed := list(ctx, topic)
		if failed == nil {
			failed = offsets.Error()
		}
		if failed == nil {
			offsets.Each(func(o kadm.ListedOffset) { n += o.Offset })
			return n, nil
		}
		if ctx.Err() == nil {
			err = failed
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			return 0, fmt.Errorf("list the offsets of topic %s: %w, after %w", topic, context.Cause(ctx), err)
		}
	}
}
