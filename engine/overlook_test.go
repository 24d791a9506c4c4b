package engine_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/engine/task"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/storage/memory"
)

// countingOutdated is a store that counts how often it is asked what became of running tasks.
type countingOutdated struct {
	*memory.Store
	asked atomic.Int64
}

func (s *countingOutdated) Outdated(ctx context.Context, refs ...task.Ref) ([]bool, error) {
	s.asked.Add(1)
	return s.Store.Outdated(ctx, refs...)
}

func TestRunningTasksAreLookedAtOnceInASecondHoweverOftenANodeIsWoken(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		g := newGroup(t)
		s := &countingOutdated{Store: g.store}
		g.wrap = func(*memory.Store) storage.Store { return s }
		a := g.join("a", one("work", nil), takes(time.Hour), "work")
		a.submit(engine.Request{Type: "work"})
		for range 1000 { // ten seconds
			time.Sleep(10 * time.Millisecond)
			if err := g.first.Publish(t.Context(), coord.WakeAll()); err != nil {
				t.Fatal(err)
			}
		}
		if n := s.asked.Load(); n < 8 || n > 11 {
			t.Errorf("they were looked at %d times in ten seconds", n)
		}
	})
}
