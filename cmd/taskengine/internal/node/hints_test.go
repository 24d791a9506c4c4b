package node

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/coord/coordtest"
	"github.com/taskengine/taskengine/coord/local"
	"github.com/taskengine/taskengine/task"
)

// fallible is a topic in memory that loses hints while it is down.
type fallible struct {
	*local.Node
	mu   sync.Mutex
	down error // guarded by mu
}

func (f *fallible) BusStatus() coord.BusStatus {
	f.mu.Lock()
	defer f.mu.Unlock()
	return coord.BusStatus{Down: f.down}
}

func (f *fallible) Publish(ctx context.Context, hs ...task.Hint) error {
	if f.BusStatus().Down != nil {
		return nil
	}
	return f.Node.Publish(ctx, hs...)
}

func (f *fallible) Want(*task.Shards) {}

func TestHintsGoByTheDatabaseWhileTheTopicCannotBeUsed(t *testing.T) {
	for name, down := range map[string]error{"a topic that works": nil, "a topic that does not": errors.New("no broker")} {
		t.Run(name, func(t *testing.T) {
			coordtest.RunBus(t, coordtest.Backend[coord.Bus]{Bubble: true, New: func(*testing.T) func() coord.Bus {
				topic, database := local.New(), local.New()
				return func() coord.Bus { return hints{&fallible{Node: topic.Peer(), down: down}, database.Peer()} }
			}, Sever: func(*testing.T, coord.Bus) {}})
		})
	}
}

func TestTheDatabaseBringsHintsWhileTheTopicWorks(t *testing.T) {
	topic, database := local.New(), local.New()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	got := make(chan task.Hint)
	ended := make(chan error)
	go func() {
		ended <- hints{&fallible{Node: topic.Peer()}, database.Peer()}.Subscribe(ctx, func(hs []task.Hint) {
			for _, h := range hs {
				select {
				case got <- h:
				case <-ctx.Done():
				}
			}
		})
	}()
	for _, bus := range []coord.Bus{topic, database} {
		for isThere := false; !isThere; { // the subscription may not have begun
			if err := bus.Publish(ctx, coord.Wake(3)); err != nil {
				t.Fatal(err)
			}
			select {
			case h := <-got:
				isThere = h == coord.Wake(3)
			default:
			}
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("Subscribe returned %v", err)
	}
}
