//go:build unix

package kafkatest

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
)

func TestEndsAsksAgainUntilAllPartitionsHaveALeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answers := []func() (kadm.ListedOffsets, error){
			func() (kadm.ListedOffsets, error) { return nil, kerr.LeaderNotAvailable },
			func() (kadm.ListedOffsets, error) {
				return kadm.ListedOffsets{"in": {0: {Topic: "in", Offset: 3}, 1: {Topic: "in", Partition: 1, Offset: -1, Err: kerr.NotLeaderForPartition}}}, nil
			},
			func() (kadm.ListedOffsets, error) {
				return kadm.ListedOffsets{"in": {0: {Topic: "in", Offset: 3}, 1: {Topic: "in", Partition: 1, Offset: 4}}}, nil
			},
		}
		n, err := endsOf(t.Context(), time.Minute, "in", func(context.Context, ...string) (kadm.ListedOffsets, error) {
			next := answers[0]
			answers = answers[1:]
			return next()
		})
		if n != 7 || err != nil {
			t.Errorf("the ends are %d, %v", n, err)
		}
		_, err = endsOf(t.Context(), time.Minute, "in", func(context.Context, ...string) (kadm.ListedOffsets, error) {
			return nil, kerr.LeaderNotAvailable
		})
		if !errors.Is(err, kerr.LeaderNotAvailable) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("without a leader: %v", err)
		}
	})
}
