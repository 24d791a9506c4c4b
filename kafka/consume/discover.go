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

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/internal/reserved"
	"github.com/taskengine/taskengine/task"
)

const (
	lookEvery = 30 * time.Second // for new topics and partitions
	retryLook = 5 * time.Second  // after an error
	manyAdds  = 64               // partitions that are added at the same time
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
	problem := s.discover(ctx, e, &st)
	isEarly, failed := s.carryOut(ctx, e, &st)
	if failed != nil {
		problem = errors.Join(problem, failed)
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if st.Problem = ""; problem != nil {
		st.Problem, next = problem.Error(), retryLook
	}
	if isEarly {
		next = 0
	}
	task.ReportProgress(ctx, 0, 0, st.Problem)
	return task.Again(e.Now().Add(next), task.WithCheckpoint(st.encode()))
}

// discover adds the partitions that the source has not read before, and notes them in st.
func (s *localSource) discover(ctx context.Context, e *engine.Engine, st *state) error {
	found, missing, err := s.list(ctx)
	if err != nil {
		return err
	}
	isFirst := st.Began.IsZero()
	topics := maps.Clone(st.Topics)
	if topics == nil {
		topics = make(map[string]topic)
	}
	var added []partition
	for _, name := range slices.Sorted(maps.Keys(found)) {
		now, first, isKnown := st.found(name, textOf(found[name].ID), int32(len(found[name].Partitions)))
		some, err := s.beginnings(ctx, name, now, first, isFirst && !isKnown)
		switch {
		case err != nil && isFirst: // topics that are found later begin elsewhere
			return err
		case err != nil: // the others do not wait for it
			missing = err
			continue
		}
		topics[name], added = now, append(added, some...)
	}
	if err := s.addAll(ctx, e, added); err != nil {
		return err
	}
	st.Topics = topics
	if isFirst && len(topics) > 0 {
		st.Began = e.Now()
	}
	return missing
}

// beginnings returns the partitions of a topic from first on, each with its first offset.
func (s *localSource) beginnings(ctx context.Context, name string, of topic, first int32, isStart bool) (all []partition, err error) {
	if first == of.Partitions {
		return nil, nil
	}
	from, err := s.firstOffsets(ctx, name, isStart)
	if err != nil {
		return nil, err
	}
	for i := first; i < of.Partitions; i++ {
		offset, ok := from[i]
		if !ok || offset.Err != nil {
			return nil, s.failed(name, errors.Join(fmt.Errorf("partition %d has no offsets", i), offset.Err))
		}
		all = append(all, partition{Topic: name, TopicID: of.ID, Partition: i, From: offset.Offset})
	}
	return all, nil
}

// firstOffsets returns where the partitions of a topic begin. A topic or partition that is found later than those of the
// start begins with its first record: it did not exist at the start.
func (s *localSource) firstOffsets(ctx context.Context, topic string, isStart bool) (map[int32]kadm.ListedOffset, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	admin, err := s.admin()
	if err != nil {
		return nil, err
	}
	var listed kadm.ListedOffsets
	switch at := s.definition.Start.Time(); {
	case !at.IsZero():
		listed, err = admin.ListOffsetsAfterMilli(ctx, at.UnixMilli(), topic)
	case isStart && s.definition.Start.IsLatest():
		listed, err = admin.ListEndOffsets(ctx, topic)
	default:
		listed, err = admin.ListStartOffsets(ctx, topic)
	}
	if err != nil {
		return nil, s.failed(topic, err)
	}
	return listed[topic], nil
}

// addAll adds the tasks of partitions. Those that exist stay as they are.
func (s *localSource) addAll(ctx context.Context, e *engine.Engine, all []partition) error {
	var adding sync.WaitGroup
	errs := make([]error, len(all))
	slots := make(chan struct{}, manyAdds)
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
