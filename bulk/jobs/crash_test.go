package jobs_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/taskengine/taskengine/bulk"
	"github.com/taskengine/taskengine/bulk/jobs"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/storage/memory"
	"github.com/taskengine/taskengine/task"
)

// mortal is a store that stops to write at a moment, before or after a change is made, as if its process was killed. It counts the
// changes by which people have tasks begin anew.
type mortal struct {
	*memory.Store

	mu      sync.Mutex
	left    int  // guarded by mu: writes until the death; it does not die if it is below 0
	after   bool // guarded by mu: the last write is made, and nobody learns of that
	dead    chan struct{}
	resumed map[task.ID]int // guarded by mu
}

// strike returns whether a write is made, and whether it is answered.
func (m *mortal) strike() (isMade, isAnswered bool) {
	switch {
	case m.left < 0:
		return true, true
	case m.left > 0:
		m.left--
		return true, true
	}
	select {
	case <-m.dead:
		return false, false
	default:
		close(m.dead)
		return m.after, false
	}
}

// Commit implements [storage.Store].
func (m *mortal) Commit(ctx context.Context, b *storage.Batch) storage.Commit {
	m.mu.Lock()
	defer m.mu.Unlock()
	isMade, isAnswered := m.strike()
	if !isMade {
		return storage.Committed(storage.Outcome{}, storage.ErrBroken)
	}
	out, err := m.Store.Commit(ctx, b).Wait()
	for i, row := range out.Swapped {
		if c := &b.Swap[i]; row != nil && c.To == task.Submitted && c.Count == task.Reset && row.Type == "pay" {
			m.resumed[row.ID]++
		}
	}
	if !isAnswered {
		return storage.Committed(storage.Outcome{}, storage.ErrBroken)
	}
	return storage.Committed(out, err)
}

// Note implements [storage.Tasks]: it stores checkpoints.
func (m *mortal) Note(ctx context.Context, ns ...task.Note) ([]bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	isMade, isAnswered := m.strike()
	if !isMade {
		return nil, storage.ErrBroken
	}
	done, err := m.Store.Note(ctx, ns...)
	if !isAnswered {
		return nil, storage.ErrBroken
	}
	return done, err
}

// Update implements [storage.Store].
func (m *mortal) Update(ctx context.Context, fn func(storage.Tx) error) error {
	m.mu.Lock()
	isMade, _ := m.strike()
	m.mu.Unlock()
	if !isMade {
		return storage.ErrBroken
	}
	return m.Store.Update(ctx, fn)
}

// UpdateNoSync implements [storage.NoSyncer].
func (m *mortal) UpdateNoSync(ctx context.Context, fn func(storage.Tx) error) error {
	return m.Update(ctx, fn)
}

// back has the store live for so many writes.
func (m *mortal) back(left int, after bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.left, m.after, m.dead = left, after, make(chan struct{})
}

// ahead is a clock that is not right.
type ahead time.Duration

// ClockAt implements [coord.Clock].
func (a ahead) ClockAt(t time.Time) (shared time.Time, within time.Duration, ok bool) {
	return t.Add(time.Duration(a)), 0, true
}

// The node dies at any write again and again, and its clock is another one each time. The tasks fail again at once, and match again.
func TestEachTaskIsResumedOnceHoweverOftenTheNodeDies(t *testing.T) {
	t.Parallel()
	const tasks = 1500 // two plans
	for round := range 6 {
		t.Run(fmt.Sprint(round), func(t *testing.T) {
			t.Parallel()
			rng := rand.New(rand.NewPCG(uint64(round), 17))
			store := &mortal{Store: memory.New(), left: -1, dead: make(chan struct{}), resumed: make(map[task.ID]int)}
			n := start(t, store)
			ids := n.add("pay", tasks)
			j := n.prepare(bulk.Resume, "type=pay error~503")
			j.Total = tasks
			if _, err := n.Start(t.Context(), j); err != nil {
				t.Fatal(err)
			}
			for range 8 {
				store.back(rng.IntN(20), rng.IntN(2) == 0)
				select {
				case <-store.dead:
				case <-time.After(time.Second): // it has ended
				}
				n.close()
				store.back(-1, false)
				n.clock = ahead(time.Duration(rng.IntN(7200)-3600) * time.Second)
				n.open()
			}
			s := n.end(j.Name)
			n.settled(ids...)
			if s.Phase != jobs.Done || s.State.Changed != tasks || s.State.Done() != tasks {
				t.Errorf("got %+v", s.State)
			}
			store.mu.Lock()
			defer store.mu.Unlock()
			for _, id := range ids {
				if store.resumed[id] != 1 {
					t.Fatalf("a task was resumed %d times: %+v", store.resumed[id], s.State)
				}
			}
		})
	}
}
