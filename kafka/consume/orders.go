package consume

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/task"
)

// carryOut carries out the orders of st, in their order but seeks last, and removes orders that are done. It returns early if st has to
// be stored first: readers that begin meanwhile look whether the source is paused.
func (s *localSource) carryOut(ctx context.Context, e *engine.Engine, st *state) (isEarly bool, err error) {
	for len(st.Orders) > 0 {
		i := max(0, slices.IndexFunc(st.Orders, func(o order) bool { return o.Seek == nil })) // a seek may have to wait for brokers
		o := st.Orders[i]
		switch {
		case o.Pause && st.Paused == nil:
			st.Paused = &Pause{At: o.At, Reason: o.Reason}
			return true, nil
		case o.Resume && st.Paused != nil:
			st.Paused = nil
			return true, nil
		}
		if err := s.carryOutOne(ctx, e, st, &o); err != nil {
			return false, err
		}
		st.Orders = slices.Delete(st.Orders, i, i+1)
	}
	return false, nil
}

// carryOutOne changes the partitions that an order is about. It may be repeated.
func (s *localSource) carryOutOne(ctx context.Context, e *engine.Engine, st *state, o *order) error {
	for name, t := range st.Topics {
		var to map[int32]kadm.ListedOffset
		for i := range t.Partitions {
			if o.Seek != nil && !o.Seek.selects(name, i) {
				continue
			}
			if o.Seek != nil && to == nil {
				var err error
				if to, err = s.offsetsOf(ctx, name, o.Seek); errors.Is(err, kerr.UnknownTopicOrPartition) {
					break // it was deleted, and is not read
				} else if err != nil {
					return err
				}
			}
			offset, isThere := to[i]
			if o.Seek != nil && !isThere {
				continue
			}
			if err := s.change(ctx, e, idOfPartition(s.definition.Name, name, t.ID, i), st.Paused != nil, o, offset); err != nil {
				return fmt.Errorf("%s/%d: %w", name, i, err)
			}
		}
	}
	return nil
}

// offsetsOf returns where a seek goes in each partition of a topic.
func (s *localSource) offsetsOf(ctx context.Context, topic string, to *Seek) (map[int32]kadm.ListedOffset, error) {
	var listed kadm.ListedOffsets
	err := s.ask(ctx, topic, -1, func(ctx context.Context, admin *kadm.Client) (err error) {
		switch {
		case to.Begin:
			listed, err = admin.ListStartOffsets(ctx, topic)
		case !to.Time.IsZero():
			listed, err = admin.ListOffsetsAfterMilli(ctx, to.Time.UnixMilli(), topic)
		default:
			listed, err = admin.ListEndOffsets(ctx, topic)
		}
		return err
	})
	if err != nil {
		return nil, s.failed(topic, err)
	}
	if to.Offset != nil {
		for i, one := range listed[topic] {
			one.Offset = *to.Offset
			listed[topic][i] = one
		}
	}
	return listed[topic], nil
}

// changeTries is how often a change of a partition is tried.
const changeTries = 20

// change carries out an order in a partition.
func (s *localSource) change(ctx context.Context, e *engine.Engine, id task.ID, isPaused bool, o *order, to kadm.ListedOffset) error {
	for range changeTries {
		t, err := e.Get(ctx, id)
		switch {
		case errors.Is(err, task.ErrNotFound):
			return nil // its topic was deleted long ago
		case err != nil:
			return err
		case !t.State.Live() && t.State != task.Error:
			return nil // it has ended, or a person has ended it
		}
		edit := engine.Edit{Interrupts: true, At: new(e.Now())}
		if isPaused {
			edit.At = new(never)
		}
		switch {
		case o.Seek != nil:
			_, at, err := decodePartition(t.Payload, t.Checkpoint())
			if err != nil || to.Err != nil {
				return errors.Join(err, to.Err)
			}
			if at.Order >= o.Number {
				return nil
			}
			at.Next, at.Epoch, at.Order = to.Offset, -1, o.Number
			edit.Checkpoint = new(at.encode())
		case o.Resume && (t.State == task.Processing || t.State == task.Submitted):
			return nil
		}
		_, err = e.Edit(ctx, t.Ref(), edit)
		if !errors.Is(err, engine.ErrStale) && !errors.Is(err, engine.ErrNotAllowed) {
			return err
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return engine.ErrStale
}
