package engine_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/storage/memory"
	"github.com/taskengine/taskengine/task"
)

// unsynced is a store with batches that become durable when the test says so.
type unsynced struct {
	storage.Store
	begun  atomic.Int64  // batches that were given to Commit
	synced chan struct{} // closed when they become durable
}

// Commit implements [storage.Store].
func (s *unsynced) Commit(ctx context.Context, b *storage.Batch) storage.Commit {
	s.begun.Add(1)
	c := s.Store.Commit(ctx, b)
	return storage.Later(func() (storage.Outcome, error) {
		<-s.synced
		return c.Wait()
	})
}

// unsyncedShared is an unsynced store that nodes may share.
type unsyncedShared struct {
	*memory.Store
	unsynced *unsynced
}

// Commit implements [storage.Store].
func (s *unsyncedShared) Commit(ctx context.Context, b *storage.Batch) storage.Commit {
	return s.unsynced.Commit(ctx, b)
}

func TestTheNextBatchIsCommittedBesideASmallOneAndAfterALargeOne(t *testing.T) {
	const large = 64
	for _, c := range []struct {
		rows   int
		shared bool
		want   int64
	}{
		{rows: 1, want: 2},
		{rows: large - 1, want: 2},
		{rows: large, want: 1},
		{rows: large, shared: true, want: 2},
	} {
		t.Run(fmt.Sprintf("rows=%d/shared=%v", c.rows, c.shared), func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				rows := memory.New()
				s := &unsynced{Store: rows, synced: make(chan struct{})}
				n := &node{t: t, store: s}
				if c.shared {
					n.store = &unsyncedShared{rows, s}
				}
				n.config = engine.Config{Store: n.store, Policies: one("x", nil), Handlers: handle("x", func(context.Context, *task.Task) ([]byte, error) {
					return nil, nil
				})}
				n.open()
				defer n.close()
				var all sync.WaitGroup
				submit := func(rows int) {
					reqs := make([]engine.Request, rows)
					for i := range reqs {
						reqs[i].Type = "x"
					}
					all.Go(func() {
						if _, err := n.Submit(context.Background(), reqs...); err != nil {
							t.Error(err)
						}
					})
					synctest.Wait()
				}
				submit(c.rows)
				submit(1)
				if got := s.begun.Load(); got != c.want {
					t.Errorf("%d batches were given to the store before the first was durable, want %d", got, c.want)
				}
				close(s.synced)
				all.Wait()
			})
		})
	}
}
