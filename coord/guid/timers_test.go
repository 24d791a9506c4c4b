package guid_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/taskengine/taskengine/coord/guid"
	"github.com/taskengine/taskengine/coord/local"
	"github.com/taskengine/taskengine/storage/memory"
	"github.com/taskengine/taskengine/task"
)

// E16: two lead at once, on two sides of a cut, and both see the same tasks become due.
func TestTwoLeadersMakeEveryTaskReadyOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const tasks = 100
		store, first := memory.New(), local.New()
		var due []task.Ref
		for i := range byte(tasks) {
			row := &task.Task{ID: task.ID{1, i}, Type: "timer"}
			row.Create(task.Waiting, time.Now(), time.Now().Add(time.Hour))
			if _, err := store.Insert(t.Context(), row); err != nil {
				t.Fatal(err)
			}
			due = append(due, row.Ref())
		}
		var made, lost [tasks]atomic.Int64
		begun, both := make(chan struct{}, 2), make(chan struct{})
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		done := make(chan struct{}, 2)
		for range 2 {
			n := connect(t, first, guid.Options{})
			n.wire.cut(time.Hour)
			go func() {
				_ = n.Lead(ctx, "timers", func(ctx context.Context) error {
					begun <- struct{}{}
					<-both // both have read the due messages
					for i, ref := range due {
						now, err := store.Swap(ctx, task.Change{Ref: ref, To: task.Submitted, At: time.Now()})
						if err != nil {
							t.Error(err)
						} else if now[0] != nil {
							made[i].Add(1)
						} else {
							lost[i].Add(1)
						}
					}
					done <- struct{}{}
					<-ctx.Done()
					return nil
				})
				done <- struct{}{}
			}()
		}
		<-begun
		<-begun
		close(both)
		<-done
		<-done
		for i := range tasks {
			if m, l := made[i].Load(), lost[i].Load(); m != 1 || l != 1 {
				t.Errorf("task %d was made ready %d times, and %d changes came too late", i, m, l)
			}
		}
		cancel()
		<-done
		<-done
	})
}
