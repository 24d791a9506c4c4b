package consume

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/kafka"
	"github.com/taskengine/taskengine/task"
)

const (
	tenure     = time.Minute // of a reader, give or take a quarter; then the owner of the shard reads on
	batchMost  = 2000        // records of one transaction
	takeMost   = 5000        // records that a reader has besides the feed
	batchBytes = 4 << 20     // likewise, unless one record has more
	missing    = time.Minute // between two looks whether a topic that is missing is there again
	idleSave   = 5 * time.Second
)

// reader is an attempt of the task that is a partition.
type reader struct {
	source *localSource
	engine *engine.Engine
	task   *task.Task
	of     partition
	at     position
	saved  time.Time // when the position was last committed
	stale  bool      // the position has changed since
	end    int64     // of the partition; -1 if it is not known
	waits  string    // why it does not go on; "" if it does
	most   int       // records of the next transaction
	relay  *engine.Relay

	began bool // records of the current stream have come
}

// read is the handler of a partition.
func (s *localSource) read(ctx context.Context, e *engine.Engine, t *task.Task) ([]byte, error) {
	r := &reader{source: s, engine: e, task: t, end: -1, saved: time.Now(), most: batchMost}
	var err error
	if r.of, r.at, err = decodePartition(t.Payload, t.Checkpoint()); err != nil {
		return nil, err
	}
	switch err := r.openRelay(ctx); {
	case errors.Is(err, errStopped):
		return nil, r.again(e.Now().Add(time.Second))
	case err != nil:
		return nil, err
	}
	st, err := s.state(ctx, e)
	switch {
	case err != nil:
		return nil, err
	case s.isStopped():
		return nil, r.again(e.Now().Add(time.Second))
	case st.superseded(r.of.Topic, r.of.TopicID):
		return r.deleted(ctx, &st)
	case st.Paused != nil:
		return nil, r.again(never)
	}
	now, err := s.topicID(ctx, r.of.Topic)
	switch {
	case errors.Is(err, kerr.UnknownTopicOrPartition):
		return r.missing(ctx, &st)
	case err != nil:
		return nil, s.failed(r.of.Topic, err)
	case now != "" && r.of.TopicID != "" && now != r.of.TopicID:
		return nil, task.WithClass("kafka_stale", fmt.Errorf("topic %s was deleted and created again, or the broker that was asked is not current", r.of.Topic))
	}
	r.back()
	return r.run(ctx)
}

// again has the task run again, at its position.
func (r *reader) again(at time.Time) error { return task.Again(at, task.WithCheckpoint(r.at.encode())) }

// run reads until the tenure is over.
func (r *reader) run(ctx context.Context) ([]byte, error) {
	feed, err := r.source.feed()
	if err != nil {
		return nil, err
	}
	over := time.NewTimer(tenure*3/4 + rand.N(tenure/2))
	defer over.Stop()
	save := time.NewTicker(r.source.pace.save)
	defer save.Stop()
	if err := r.probe(ctx); err != nil {
		return nil, err
	}
	in := r.open(feed)
	defer func() {
		in.close()
		r.source.stats.left(place{r.of.Topic, r.of.Partition})
	}()
	for {
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-r.source.stopped:
			return nil, r.again(r.engine.Now())
		case <-over.C:
			return nil, r.again(r.engine.Now())
		case <-save.C:
			if err := r.save(ctx); err != nil {
				return nil, err
			}
			continue
		case <-in.ready:
		}
		records, end, failed := in.take(takeMost)
		if end >= 0 {
			r.end = end
		}
		err := r.checkFirst(ctx, in, records)
		if err == nil {
			err = r.commitAll(ctx, records)
		}
		switch {
		case errors.Is(err, errStopped):
			return nil, r.again(r.engine.Now())
		case err != nil:
			return nil, err
		}
		r.report(ctx, r.waits)
		if failed == nil {
			continue
		}
		in.close()
		if err := r.reset(ctx, failed); err != nil {
			return nil, err
		}
		in = r.open(feed)
	}
}

// probe returns an error unless the brokers answer about the position. The client of the feed asks the same for several
// partitions at once, and waits for the slowest: one that hangs is kept from it.
func (r *reader) probe(ctx context.Context) error {
	if r.at.Epoch >= 0 {
		err := r.source.ask(ctx, r.of.Topic, r.of.Partition, func(ctx context.Context, admin *kadm.Client) error {
			var of kadm.OffsetForLeaderEpochRequest
			of.Add(r.of.Topic, r.of.Partition, r.at.Epoch)
			_, err := admin.OffsetForLeaderEpoch(ctx, of)
			return err
		})
		if err != nil && !kafka.IsAnswer(err) { // the client notices that records are lost
			return r.source.failed(r.of.Topic, err)
		}
		return nil
	}
	begin, end, err := r.source.bounds(ctx, r.of.Topic, r.of.Partition)
	switch {
	case err != nil:
		return r.source.failed(r.of.Topic, err)
	case r.at.Next < begin.Offset || r.at.Next > end.Offset:
		return r.reset(ctx, kerr.OffsetOutOfRange)
	}
	return nil
}

// open opens a stream at the position.
func (r *reader) open(f *feed) *stream {
	r.began = false
	return f.open(place{r.of.Topic, r.of.Partition}, r.of.TopicID, r.at.Next, r.at.Epoch)
}

// report reports the progress: the position, of the end of the partition.
func (r *reader) report(ctx context.Context, message string) {
	task.ReportProgress(ctx, uint64(max(r.at.Next, 0)), uint64(max(r.end, 0)), message)
	r.source.stats.read(place{r.of.Topic, r.of.Partition}, r.lag(), message)
}

// lag returns how many offsets are behind the position; -1 if it is not known.
func (r *reader) lag() int64 {
	if r.end < 0 {
		return -1
	}
	return max(0, r.end-r.at.Next)
}
