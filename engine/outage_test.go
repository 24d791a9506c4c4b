package engine_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/storage/memory"
	"github.com/taskengine/taskengine/task"
)

// unreachable is a store in memory to which some reads do not get through during an outage: they
// wait, and then fail.
type unreachable struct {
	*memory.Store
	out           atomic.Bool
	counts, scans atomic.Int64 // that succeeded: of backlogs, and of processing tasks
}

func (s *unreachable) reach(done *atomic.Int64) error {
	if s.out.Load() {
		time.Sleep(15 * time.Second)
		return errors.New("no connection")
	}
	done.Add(1)
	return nil
}

func (s *unreachable) Count(ctx context.Context, f storage.Filter) (map[storage.StateType]int64, error) {
	if err := s.reach(&s.counts); err != nil {
		return nil, err
	}
	return s.Store.Count(ctx, f)
}

func (s *unreachable) Orphans(ctx context.Context, alive []task.ID, after task.ID, scan int) ([]*task.Task, task.ID, error) {
	if len(alive) == 0 { // a node that is alone looks for its own rows
		if err := s.reach(&s.scans); err != nil {
			return nil, task.ID{}, err
		}
	}
	return s.Store.Orphans(ctx, alive, after, scan)
}

func TestWhatANodeDoesAgainAndAgainIsNotPutOffByAnOutageThatIsOver(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		g := newGroup(t)
		s := &unreachable{Store: g.store}
		g.wrap = func(*memory.Store) storage.Store { return s }
		g.join("a", one("work", func(p *policy.Type) { p.MaxBacklog = policy.Backlog{Max: 10} }), takes(0), "work")
		time.Sleep(time.Minute)
		s.out.Store(true)
		time.Sleep(6 * time.Minute)
		s.out.Store(false)
		time.Sleep(20 * time.Second) // the last of these reads has failed
		counts, scans := s.counts.Load(), s.scans.Load()
		time.Sleep(2 * time.Minute)
		if counts, scans = s.counts.Load()-counts, s.scans.Load()-scans; counts < 100 || scans < 5 {
			t.Errorf("in the two minutes after an outage it counted the backlogs %d times, and compared its tasks with the store %d times", counts, scans)
		}
	})
}
