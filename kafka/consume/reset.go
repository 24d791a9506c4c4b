package consume

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/taskengine/taskengine/task"
)

const deletedUnread = "the topic has deleted these records before they were read"

// reset moves the position after an error of the stream, if the log does not have the records there any more. Otherwise
// it returns the error of the attempt.
func (r *reader) reset(ctx context.Context, failed error) error {
	loss, isLoss := errors.AsType[*kgo.ErrDataLoss](failed)
	if !isLoss && !errors.Is(failed, kerr.OffsetOutOfRange) {
		return r.source.failed(r.of.Topic, failed)
	}
	begin, end, err := r.source.bounds(ctx, r.of.Topic, r.of.Partition)
	if err != nil {
		return r.source.failed(r.of.Topic, err)
	}
	lost := Lost{At: time.Now()}
	switch {
	case r.at.Next < begin.Offset:
		lost.From, lost.To, lost.Reason = r.at.Next, begin.Offset, deletedUnread
	case isLoss && loss.ResetTo < r.at.Next:
		lost.From, lost.To, lost.Reason = loss.ResetTo, r.at.Next, "the brokers have lost these records after they were read"
	case r.at.Next > end.Offset && r.source.suspects(place{r.of.Topic, r.of.Partition}):
		lost.From, lost.To, lost.Reason = end.Offset, r.at.Next, "the brokers have lost these records after they were read"
	default: // another broker was asked, which was not current
		return task.WithClass("kafka_stale", fmt.Errorf("%s/%d: a broker did not know the offset %d, which is there", r.of.Topic, r.of.Partition, r.at.Next))
	}
	return r.note(ctx, &lost)
}

// note stores and reports lost records. The position moves behind lost records that were not read, and before lost records that were.
func (r *reader) note(ctx context.Context, lost *Lost) error {
	next := r.at
	next.lose(*lost)
	next.Next, next.Epoch = lost.To, -1
	if lost.From < r.at.Next {
		next.Next = lost.From
	}
	if err := r.store(ctx, &next); err != nil {
		return err
	}
	r.source.lost(ctx, place{r.of.Topic, r.of.Partition}, lost)
	return nil
}

// checkFirst compares the first records of a stream with the position. If the topic has just deleted records, the client may
// begin behind the position without saying so, unless it knows an epoch.
func (r *reader) checkFirst(ctx context.Context, in *stream, records []*kgo.Record) error {
	if r.began || len(records) == 0 {
		return nil
	}
	r.began = true
	first, begin := records[0].Offset, in.beginning()
	if first == r.at.Next || begin <= r.at.Next { // other gaps are of compacted topics and of transactions
		return nil
	}
	return r.note(ctx, &Lost{From: r.at.Next, To: min(first, begin), At: time.Now(), Reason: deletedUnread})
}

// suspects reports whether a partition has seemed to be shorter than its position for longer than a broker that is not
// current is asked.
func (s *localSource) suspects(at place) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	since, ok := s.suspected[at]
	if !ok {
		s.suspected[at] = time.Now()
	}
	return ok && time.Since(since) >= s.pace.suspicion
}

// trust forgets what suspects has noted.
func (s *localSource) trust(at place) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.suspected, at)
}

// bounds returns the first offset of a partition and that behind its last record. Brokers that lead other partitions of the
// topic need not answer.
func (s *localSource) bounds(ctx context.Context, topic string, partition int32) (begin, end kadm.ListedOffset, err error) {
	err = s.ask(ctx, topic, partition, func(ctx context.Context, admin *kadm.Client) error {
		first, cancel := s.shareOf(ctx, topic)
		begins, err := admin.ListStartOffsets(first, topic)
		cancel()
		var ok bool
		if begin, ok = begins.Lookup(topic, partition); !ok {
			return cmp.Or(err, partitionError(partition, nil))
		}
		ends, err := admin.ListEndOffsets(ctx, topic)
		if end, ok = ends.Lookup(topic, partition); !ok {
			return cmp.Or(err, partitionError(partition, nil))
		}
		return cmp.Or(begin.Err, end.Err)
	})
	return begin, end, err
}

// shareOf returns the context of the first of two questions about a topic. If a silent broker leads some of the partitions, the
// first question waits for it in vain, and leaves half of the time to the second one.
func (s *localSource) shareOf(ctx context.Context, topic string) (context.Context, context.CancelFunc) {
	until, ok := ctx.Deadline()
	if _, silent := s.leadersOf(topic, -1); len(silent) == 0 || !ok {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, time.Until(until)/2)
}
