package node

import (
	"context"
	"errors"
	"sync"

	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/task"
)

// topicBus is a bus that may fail, and that can select its hints.
type topicBus interface {
	coord.Bus
	coord.Selective
	coord.Reporter
}

// hints is a bus. Its hints go by a topic, and by the database as well while the topic cannot be used. The database also
// brings hints of tasks that SQL adds.
type hints struct {
	topicBus
	database coord.Bus
}

// Publish implements [coord.Bus].
func (h hints) Publish(ctx context.Context, hs ...task.Hint) error {
	err := h.topicBus.Publish(ctx, hs...)
	if h.BusStatus().Down != nil {
		err = errors.Join(err, h.database.Publish(ctx, hs...))
	}
	return err
}

// Subscribe implements [coord.Bus].
func (h hints) Subscribe(ctx context.Context, fn func([]task.Hint)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var (
		calling sync.Mutex // held during a call of fn
		both    sync.WaitGroup
		errs    [2]error
	)
	for i, bus := range []coord.Bus{h.topicBus, h.database} {
		both.Go(func() {
			defer cancel() // the caller subscribes again to both
			errs[i] = bus.Subscribe(ctx, func(hs []task.Hint) {
				calling.Lock()
				defer calling.Unlock()
				fn(hs)
			})
		})
	}
	both.Wait()
	return errors.Join(errs[:]...)
}
