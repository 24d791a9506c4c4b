package engine_test

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/taskengine/taskengine/coord/local"
	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/storage/memory"
	"github.com/taskengine/taskengine/task"
)

// hung is a store in two databases, the second of which may hang: calls that need it wait.
type hung struct {
	inParts
	gate  atomic.Pointer[chan struct{}] // closed when it answers again; nil while it answers
	fails atomic.Bool                   // instead of hanging, calls that need the second database fail
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

// await returns when both databases answer, or with an error if one is away.
func (s *hung) await(ctx context.Context) error {
	if s.fails.Load() {
		return errAway
	}
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

func (s *hung) Unclaimed(ctx context.Context, q storage.UnclaimedQuery) (storage.UnclaimedPage, error) {
	if err := s.await(ctx); err != nil {
		return storage.UnclaimedPage{}, err
	}
	return s.inParts.Unclaimed(ctx, q)
}

func (s *hung) Submitted(ctx context.Context, q storage.SubmittedQuery) ([]task.Hint, storage.Cursor, error) {
	if err := s.await(ctx); err != nil {
		return nil, storage.Cursor{}, err
	}
	return s.inParts.Submitted(ctx, q)
}

func (s *hung) Orphans(ctx context.Context, alive []task.ID, after task.ID, scan int) ([]*task.Task, task.ID, error) {
	if err := s.await(ctx); err != nil {
		return nil, task.ID{}, err
	}
	return s.inParts.Orphans(ctx, alive, after, scan)
}

func (s *hung) Outdated(ctx context.Context, owner task.ID, refs ...task.Ref) ([]bool, error) {
	for _, ref := range refs {
		if ref.ID.Shard() >= task.ShardCount/2 {
			if err := s.await(ctx); err != nil {
				return nil, err
			}
		}
	}
	return s.inParts.Outdated(ctx, owner, refs...)
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

func (s *firstHalf) Unclaimed(ctx context.Context, q storage.UnclaimedQuery) (storage.UnclaimedPage, error) {
	first := task.AllShards()
	second, err := task.ParseShards("128-255")
	if err != nil {
		return storage.UnclaimedPage{}, err
	}
	first = first.Without(&second)
	q.Shards = &first // the rows of the tests have the shards of their IDs
	return s.Store.Unclaimed(ctx, q)
}

func (s *firstHalf) Submitted(ctx context.Context, q storage.SubmittedQuery) ([]task.Hint, storage.Cursor, error) {
	page, next, err := s.Store.Submitted(ctx, q)
	return slices.DeleteFunc(page, func(h task.Hint) bool { return h.ID.Shard() >= task.ShardCount/2 }), next, err
}

func (s *firstHalf) Orphans(ctx context.Context, alive []task.ID, after task.ID, scan int) ([]*task.Task, task.ID, error) {
	page, next, err := s.Store.Orphans(ctx, alive, after, scan)
	return slices.DeleteFunc(page, func(t *task.Task) bool { return t.ID.Shard() >= task.ShardCount/2 }), next, err
}

// There are no hints of the tasks: a node finds them by polling, and tasks of a dead node by healing.
func TestTasksWithoutAHintAreFoundWhileAnotherDatabaseIsAway(t *testing.T) {
	for _, hangs := range []bool{true, false} { // or its calls fail
		inBubble(t, func(t *testing.T) {
			s := &hung{inParts: inParts{Store: memory.New()}}
			n := &node{t: t, store: s, config: engine.Config{
				Store: s, Policies: one("pay", nil), Coordinator: local.New().Coordinator(),
				Handlers: handle("pay", func(context.Context, *task.Task) ([]byte, error) { return nil, nil }),
			}}
			n.open()
			t.Cleanup(n.close)
			var answer func()
			if hangs {
				answer = s.hang()
			} else {
				s.set(half(t), false)
				s.fails.Store(true)
				answer = func() {
					s.set(task.Shards{}, false)
					s.fails.Store(false)
				}
			}
			time.Sleep(3 * time.Second)                                      // a poll is under way when the tasks are added
			fresh, ids := task.NewIDs([32]byte{1}), make(map[bool][]task.ID) // by whether they are of the second database
			for i := range 40 {
				for _, state := range []task.State{task.Submitted, task.Waiting, task.Processing} {
					shard := uint16(i * 6)
					row := s.byAnother(t, fresh.NextIn(time.Now(), shard), state)
					ids[shard >= task.ShardCount/2] = append(ids[shard >= task.ShardCount/2], row.ID)
				}
			}
			time.Sleep(30 * time.Second)
			for _, row := range s.all(t) {
				if isThere := slices.Contains(ids[false], row.ID); isThere != (row.State == task.Done) {
					t.Fatalf("hangs: %t; a task with a database that is there: %t, is %s", hangs, isThere, row.State)
				}
			}
			answer()
			time.Sleep(30 * time.Second)
			for _, id := range append(ids[false], ids[true]...) {
				n.expect(id, task.Done)
			}
		})
	}
}

// byAnother inserts a task as another program does, or a node that has died.
func (s *hung) byAnother(t *testing.T, id task.ID, state task.State) *task.Task {
	t.Helper()
	now := time.Now()
	row := &task.Task{
		ID: id, Version: 1, Type: "pay", State: state, Shard: id.Shard(), Priority: task.DefaultPriority,
		CreatedAt: now, UpdatedAt: now, ReadyAt: now,
	}
	switch state {
	case task.Waiting:
		row.NextEventAt = now
	case task.Processing:
		row.Owner, row.Attempt = task.ID{9}, 1
	}
	if _, err := s.Store.Insert(t.Context(), row); err != nil {
		t.Fatal(err)
	}
	return row
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
		s.set(task.AllShards(), true) // writes are done, and not answered
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
