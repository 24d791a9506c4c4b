package consume

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/internal/reserved"
	"github.com/taskengine/taskengine/task"
)

const (
	lookEvery = 30 * time.Second // for new topics and partitions
	retryLook = 5 * time.Second  // after an error
	manyAdds  = 64               // partitions that are added at the same time
	manyLooks = 64               // topics that are looked at at the same time
)

// never is when a partition of a paused source is read.
var never = time.Date(9999, time.December, 31, 0, 0, 0, 0, time.UTC)

// run is the handler of the task that is a source: it adds the partitions that are new, and carries out orders.
func (s *localSource) run(ctx context.Context, e *engine.Engine, t *task.Task) error {
	st, err := decodeState(t.Checkpoint())
	if err != nil {
		return err
	}
	next := lookEvery
	isOrdered := slices.ContainsFunc(st.Orders, func(o order) bool { return o.Seek == nil })
	var problem error
	if !isOrdered { // a pause does not wait for brokers
		problem = s.discover(ctx, e, &st)
	}
	isEarly, failed := s.carryOut(ctx, e, &st)
	if failed != nil {
		problem = errors.Join(problem, failed)
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err := s.collect(ctx, e, &st); err != nil {
		problem = errors.Join(problem, err)
	}
	if !isOrdered {
		s.noteEnds(ctx, &st)
		st.Problem = ""
	}
	if problem != nil {
		st.Problem = problem.Error()
	}
	if problem != nil || st.collects() {
		next = s.pace.retryLook
	}
	if isEarly || isOrdered && failed == nil {
		next = 0
	}
	task.ReportProgress(ctx, 0, 0, st.Problem)
	return task.Again(e.Now().Add(next), task.WithCheckpoint(st.encode()))
}

// discover adds the partitions that the source has not read before, and notes them in st.
func (s *localSource) discover(ctx context.Context, e *engine.Engine, st *state) error {
	listed, err := s.list(ctx)
	if err != nil {
		return err
	}
	found, missing := listed.found, listed.missing
	isFirst := st.Began.IsZero()
	topics := maps.Clone(st.Topics)
	if topics == nil {
		topics = make(map[string]topic)
	}
	for name, one := range s.begin(ctx, e, st, listed) {
		if one.err != nil { // the others do not wait for it
			missing = one.err
		} else {
			topics[name] = one.topic
		}
	}
	for name, t := range topics {
		if listed.isGone(name) {
			missing = errors.Join(missing, s.interrupt(ctx, e, name, t))
		}
	}
	st.Topics = topics
	switch isKnown := func(name string) bool { _, ok := topics[name]; return ok }; {
	case isFirst && len(topics) > 0:
		st.Began, st.Late = e.Now(), slices.DeleteFunc(slices.Sorted(maps.Keys(found)), isKnown)
	case !isFirst:
		st.Late = slices.DeleteFunc(st.Late, isKnown)
	}
	return missing
}

// begun is a topic that gets its new partitions, unless there is an error.
type begun struct {
	topic topic
	err   error
}

// begin adds the partitions of a listing that are new. A topic with partitions without a leader takes until the time of the
// brokers' answer is over, so no topic waits for another one.
func (s *localSource) begin(ctx context.Context, e *engine.Engine, st *state, l *listing) map[string]*begun {
	all := make(map[string]*begun, len(l.found))
	var working sync.WaitGroup
	looks, adds := make(chan struct{}, manyLooks), make(chan struct{}, manyAdds)
	for name, one := range l.found {
		b := new(begun)
		all[name] = b
		var first int32
		var isKnown bool
		b.topic, first, isKnown = st.found(name, textOf(one.ID), int32(len(one.Partitions)))
		if first == b.topic.Partitions {
			continue
		}
		isStart := !isKnown && (st.Began.IsZero() || slices.Contains(st.Late, name))
		working.Go(func() {
			looks <- struct{}{}
			added, err := s.beginnings(ctx, name, b.topic, first, isStart)
			<-looks
			if err == nil {
				err = s.addAll(ctx, e, added, adds)
			}
			b.err = err
		})
	}
	working.Wait()
	return all
}

// beginnings returns the partitions of a topic from first on, each with its first offset.
func (s *localSource) beginnings(ctx context.Context, name string, of topic, first int32, isStart bool) (all []partition, err error) {
	from, err := s.firstOffsets(ctx, name, isStart)
	if err != nil {
		return nil, err
	}
	for i := first; i < of.Partitions; i++ {
		offset, ok := from[i]
		if !ok || offset.Err != nil {
			return nil, s.failed(name, partitionError(i, offset.Err))
		}
		all = append(all, partition{Topic: name, TopicID: of.ID, Partition: i, From: offset.Offset})
	}
	return all, nil
}

// partitionError returns the error of a partition of which the brokers do not say the offsets. err may be nil.
func partitionError(partition int32, err error) error {
	if err == nil {
		err = kerr.LeaderNotAvailable // which the client has not asked
	}
	return fmt.Errorf("partition %d has no offsets: %w", partition, err)
}

// firstOffsets returns where the partitions of a topic begin. A topic or partition that is found later than the partitions of the
// start begins with its first record: it did not exist at the start.
func (s *localSource) firstOffsets(ctx context.Context, topic string, isStart bool) (map[int32]kadm.ListedOffset, error) {
	var listed kadm.ListedOffsets
	err := s.ask(ctx, topic, -1, func(ctx context.Context, admin *kadm.Client) (err error) {
		switch at := s.definition.Start.Time(); {
		case !at.IsZero():
			listed, err = admin.ListOffsetsAfterMilli(ctx, at.UnixMilli(), topic)
		case isStart && s.definition.Start.IsLatest():
			listed, err = admin.ListEndOffsets(ctx, topic)
		default:
			listed, err = admin.ListStartOffsets(ctx, topic)
		}
		return err
	})
	if err != nil {
		return nil, s.failed(topic, err)
	}
	return listed[topic], nil
}

// addAll adds the tasks of partitions, each while it has a place in slots. Existing tasks stay as they are.
func (s *localSource) addAll(ctx context.Context, e *engine.Engine, all []partition, slots chan struct{}) error {
	var adding sync.WaitGroup
	errs := make([]error, len(all))
	for i := range all {
		slots <- struct{}{}
		adding.Go(func() {
			defer func() { <-slots }()
			_, errs[i] = e.SubmitReserved(ctx, reserved.Owner{}, s.requestOf(&all[i]))
		})
	}
	adding.Wait()
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("add the partitions of source %s: %w", s.definition.Name, err)
	}
	return nil
}

// Headers of the tasks of sources.
const (
	headerSource    = "source"
	headerTopic     = "topic"
	headerPartition = "partition"
)

func (s *localSource) requestOf(p *partition) task.Request {
	return task.Request{
		ID: idOfPartition(s.definition.Name, p.Topic, p.TopicID, p.Partition), Type: TypeOf(s.definition.Name), Payload: p.encode(),
		Headers: map[string]string{headerSource: s.definition.Name, headerTopic: p.Topic, headerPartition: fmt.Sprint(p.Partition)},
	}
}
