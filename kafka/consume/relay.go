package consume

import (
	"context"
	"errors"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/internal/reserved"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

// openRelay opens the relay of the partition, by which tasks leave for other databases, and delivers what an attempt before
// has left.
func (r *reader) openRelay(ctx context.Context) (err error) {
	if r.relay, err = r.engine.OpenRelay(ctx, reserved.Owner{}, r.source.config.Store); err != nil {
		return err
	}
	return r.deliver(ctx)
}

// deliver has the tasks added that have left for other databases. While a backlog is full, it waits.
func (r *reader) deliver(ctx context.Context) error {
	for wait := firstWait; ; wait = min(2*wait, longestWait) {
		err := r.relay.Deliver(ctx)
		if !errors.Is(err, engine.ErrBacklog) {
			if err == nil {
				r.waits = ""
			}
			return err
		}
		if err := r.awaitRoom(ctx, wait, err); err != nil {
			return err
		}
	}
}

// relayOne adds the task of a record for the attempt of t, perhaps in another database. The checkpoint says that it has left.
func (s *localSource) relayOne(ctx context.Context, t *task.Task, req task.Request) error {
	e, ok := engine.FromContext(ctx)
	if !ok {
		return errors.New("a record must be read by an engine")
	}
	relay, err := e.OpenRelay(ctx, reserved.Owner{}, s.config.Store)
	if err != nil {
		return err
	}
	hasLeft := []byte(`{"left":true}`)
	if len(t.Checkpoint()) == 0 {
		prepared, err := e.Prepare(ctx, req)
		if errors.Is(err, engine.ErrInvalid) {
			err = task.Permanent(task.WithClass("kafka_unreadable", err))
		}
		if err != nil {
			return err
		}
		placed, err := relay.Place(ctx, prepared)
		if err != nil {
			return err
		}
		err = relay.Update(ctx, func(tx storage.Tx) error {
			if receipts, err := relay.SubmitTx(ctx, tx, placed); err != nil && (receipts == nil || errors.Is(err, engine.ErrBacklog)) {
				return err
			}
			return engine.CheckpointTx(ctx, tx, hasLeft)
		})
		if err != nil {
			return err
		}
	}
	if err := relay.Deliver(ctx); err != nil || relay.IsEmpty() {
		return err
	}
	return relay.Update(ctx, func(tx storage.Tx) error { return engine.CheckpointTx(ctx, tx, hasLeft) })
}
