package consume

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/task"
)

// Move is what a seek does to a partition.
type Move struct {
	Topic     string
	Partition int32
	From, To  int64 // the positions before and after
}

// Plan returns where a seek would take the partitions of a source now, by topic and number. It changes nothing.
func (s *Sources) Plan(ctx context.Context, e *engine.Engine, name string, to Seek) ([]Move, error) {
	of, ok := s.all[name]
	if !ok {
		return nil, fmt.Errorf("%w: %s", ErrUnknown, name)
	}
	if err := to.check(); err != nil {
		return nil, err
	}
	st, err := of.state(ctx, e)
	if err != nil {
		return nil, err
	}
	if err := to.checkTopic(&st); err != nil {
		return nil, err
	}
	var all []Move
	for _, topic := range slices.Sorted(maps.Keys(st.Topics)) {
		if to.Topic != "" && to.Topic != topic {
			continue
		}
		moves, err := of.plan(ctx, e, &to, topic, st.Topics[topic])
		if err != nil {
			return nil, err
		}
		all = append(all, moves...)
	}
	return all, nil
}

// plan returns the moves that a seek makes in a topic. It omits partitions with a task that has ended.
func (s *localSource) plan(ctx context.Context, e *engine.Engine, to *Seek, name string, of topic) (all []Move, err error) {
	for i := range of.Partitions {
		if !to.selects(name, i) {
			continue
		}
		t, err := e.Get(ctx, idOfPartition(s.definition.Name, name, of.ID, i))
		switch {
		case errors.Is(err, task.ErrNotFound):
			continue
		case err != nil:
			return nil, err
		case !t.State.Live() && t.State != task.Error:
			continue
		}
		_, at, err := decodePartition(t.Payload, t.Checkpoint())
		if err != nil {
			return nil, err
		}
		all = append(all, Move{Topic: name, Partition: i, From: at.Next})
	}
	if len(all) == 0 {
		return nil, nil
	}
	offsets, err := s.offsetsOf(ctx, name, to)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrBrokers, err)
	}
	for i := range all {
		offset, ok := offsets[all[i].Partition]
		if !ok || offset.Err != nil {
			return nil, fmt.Errorf("%w: %s/%d: %w", ErrBrokers, name, all[i].Partition, errors.Join(errors.New("it has no offsets"), offset.Err))
		}
		all[i].To = offset.Offset
	}
	return all, nil
}
