package engine_test

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/engine/task"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/storage/memory"
)

// hung is a store in two databases, the second of which may hang: what needs it waits.
type hung struct {
	inParts
	gate atomic.Pointer[chan struct{}] // closed when it answers again; nil while it answers
}

// hang has the second database hang until the function that it returns is called.
func (s *hung) hang() (answer func()) {
	gate := make(chan struct{})
	s.gate.Store(&gate)
	return func() {
		s.gate.Store(nil)
		close(gate)
	}
}

// await returns when both databases answer.
func (s *hung) await(ctx context.Context) error {
	if gate := s.gate.Load(); gate != nil {
		select {
		case <-*gate:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

func (s *hung) CommitIn(ctx context.Context, database int, b *storage.Batch) storage.Commit {
	return storage.Later(func() (storage.Outcome, error) {
		if database == 1 {
			if err := s.await(ctx); err != nil {
				return storage.Outcome{}, err
			}
		}
		return s.inParts.CommitIn(ctx, database, b).Wait()
	})
}

func (s *hung) Get(ctx context.Context, id task.ID) (*task.Task, error) {
	if id.Shard() >= task.ShardCount/2 {
		if err := s.await(ctx); err != nil {
			return nil, err
		}
	}
	return s.inParts.Get(ctx, id)
}

func (s *hung) Ready(ctx context.Context, q storage.ReadyQuery) ([]task.Trigger, error) {
	if err := s.await(ctx); err != nil {
		return nil, err
	}
	return s.inParts.Ready(ctx, q)
}

func (s *hung) Due(ctx context.Context, q storage.DueQuery) ([]storage.Due, error) {
	if err := s.await(ctx); err != nil {
		return nil, err
	}
	return s.inParts.Due(ctx, q)
}

func (s *hung) Queues(ctx context.Context, after task.Queue, limit int) ([]task.Queue, error) {
	if err := s.await(ctx); err != nil {
		return nil, err
	}
	return s.inParts.Queues(ctx, after, limit)
}

func (s *hung) Without(databases ...int) storage.Tasks {
	if slices.Contains(databases, 1) {
		return &firstHalf{s.Store}
	}
	return s
}

// firstHalf is the tasks of the first database, for reads.
type firstHalf struct{ *memory.Store }

func (s *firstHalf) Ready(ctx context.Context, q storage.ReadyQuery) ([]task.Trigger, error) {
	limit := q.Limit
	q.Limit = 1_000_000
	page, err := s.Store.Ready(ctx, q)
	page = slices.DeleteFunc(page, func(t task.Trigger) bool { return t.ID.Shard() >= task.ShardCount/2 })
	return page[:min(len(page), limit)], err
}

func (s *firstHalf) Due(ctx context.Context, q storage.DueQuery) ([]storage.Due, error) {
	limit := q.Limit
	q.Limit = 1_000_000
	page, err := s.Store.Due(ctx, q)
	page = slices.DeleteFunc(page, func(d storage.Due) bool { return d.ID.Shard() >= task.ShardCount/2 })
	return page[:min(len(page), limit)], err
}

func TestTheBacklogOfADatabaseIsReadWhileAnotherHangs(t *testing.T) {
	for _, isWritten := range []bool{true, false} { // while it hangs, something is written to it; or nothing is
		inBubble(t, func(t *testing.T) {
			s := &hung{inParts: inParts{Store: memory.New()}}
			var mu sync.Mutex
			runs := make(map[task.ID]int)
			set := one("pay", nil)
			set.Slots = 2
			n := &node{t: t, store: s, config: engine.Config{Store: s, Policies: set, QueueLookAhead: 4, Handlers: handle("pay", func(_ context.Context, t *task.Task) ([]byte, error) {
				mu.Lock()
				runs[t.ID]++
				mu.Unlock()
				time.Sleep(100 * time.Millisecond)
				return nil, nil
			})}}
			n.open()
			t.Cleanup(n.close)
			ids, all := task.NewIDs([32]byte{1}), make(map[bool][]task.ID) // by whether they are of the second database
			for i := range 200 {
				isSecond := i%2 == 1 && (isWritten || i > 100)
				shard := uint16(i % (task.ShardCount / 2))
				if isSecond {
					shard += task.ShardCount / 2
				}
				id := n.submit(engine.Request{Type: "pay", ID: ids.NextIn(time.Now(), shard)})
				all[isSecond] = append(all[isSecond], id)
			}
			answer := s.hang()
			began := time.Now()
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			defer cancel()
			if err := n.WaitTasks(ctx, all[false]...); err != nil {
				t.Fatal(err)
			}
			if took := time.Since(began); took > 30*time.Second {
				t.Errorf("the tasks of the other database took %v", took)
			}
			time.Sleep(time.Minute)
			answer()
			synctest.Wait()
			if err := n.WaitTasks(ctx, slices.Concat(all[true], all[false])...); err != nil {
				t.Fatal(err)
			}
			for id, times := range runs {
				if times != 1 {
					t.Errorf("task %v ran %d times", id, times)
				}
			}
		})
	}
}

func TestUncertainTasksAreResolvedWhileAnotherDatabaseHangs(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := &hung{inParts: inParts{Store: memory.New()}}
		n := &node{t: t, store: s, config: engine.Config{Store: s, Policies: one("pay", nil), Handlers: handle("pay", func(context.Context, *task.Task) ([]byte, error) {
			return nil, nil
		})}}
		n.open()
		t.Cleanup(n.close)
		s.set(task.AllShards(), true) // what is written is done, and not answered
		for range 100 {
			if _, err := n.Submit(t.Context(), engine.Request{Type: "pay"}); err == nil {
				t.Fatal("a submit is answered")
			}
		}
		answer := s.hang()
		s.set(task.Shards{}, false)
		ended := func() map[bool]int { // by whether they are in the second database
			ends := make(map[bool]int)
			for _, row := range s.all(t) {
				if row.State == task.Done {
					ends[row.ID.Shard() >= task.ShardCount/2]++
				}
			}
			return ends
		}
		time.Sleep(5 * time.Minute)
		if got := ended(); got[false] < 20 || got[true] > 0 {
			t.Errorf("of the database that answers %d tasks are done, and %d of the other", got[false], got[true])
		}
		answer()
		time.Sleep(5 * time.Minute)
		if got := ended(); got[false]+got[true] != 100 {
			t.Errorf("%d and %d tasks are done", got[false], got[true])
		}
	})
}
