package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/storage/postgres"
	"github.com/taskengine/taskengine/storage/postgres/postgrestest"
	"github.com/taskengine/taskengine/task"
)

// BenchmarkFollow measures how fast two writers add tasks and end them, 128 of each in a batch, while one of a hundred tasks
// runs again and adds another one: "following" is that rate divided by the rate without such tasks. "stepwise" is the same
// by transactions that read rows before they change them, as every batch with rows that follow was done once. With change=ends, the
// task that adds another one is done, as a child is that is followed by the report of its end. An operation
// is a round of each, and the figures are the medians of the rounds.
func BenchmarkFollow(b *testing.B) {
	for _, change := range []string{"reruns", "ends"} {
		b.Run("change="+change, func(b *testing.B) { benchmarkFollow(b, change == "ends") })
	}
}

func benchmarkFollow(b *testing.B, ends bool) {
	s := postgrestest.Open(b, server.Database(b))
	follow := &following{s: s, ids: task.NewIDs([32]byte{1}), ends: ends}
	commit := func(ctx context.Context, batch *storage.Batch) (err error) {
		_, err = s.Commit(ctx, batch).Wait()
		return err
	}
	stepwise := func(ctx context.Context, batch *storage.Batch) error {
		return s.Update(ctx, func(tx storage.Tx) error {
			_, err := storage.Do(ctx, tx, batch)
			return err
		})
	}
	follow.rate(b, commit, 1) // connects, prepares the statements, and makes the partition
	var plain, following, steps []float64
	for b.Loop() {
		before := follow.rate(b, commit, 0)
		with, step := follow.rate(b, commit, 1), follow.rate(b, stepwise, 1)
		without := (before + follow.rate(b, commit, 0)) / 2
		plain, following, steps = append(plain, without), append(following, with/without), append(steps, step/without)
	}
	for name, of := range map[string][]float64{"tasks/s": plain, "following": following, "stepwise": steps} {
		slices.Sort(of)
		b.ReportMetric(of[len(of)/2], name)
	}
}

// following is the load of BenchmarkFollow.
type following struct {
	s   *postgres.Store
	ids *task.IDs

	ends bool // tasks that are done add others, in place of those that run again
}

// rate returns how many tasks end in a second, of which some in each batch are followed by others.
func (f *following) rate(b *testing.B, commit func(context.Context, *storage.Batch) error, followed int) float64 {
	const writers, batches, tasks = 2, 40, 128
	began := time.Now()
	var all sync.WaitGroup
	for range writers {
		all.Go(func() {
			var running []*task.Task
			for range batches {
				batch := f.batch(running, tasks, followed)
				err := commit(b.Context(), batch)
				for errors.Is(err, storage.ErrBusy) { // the other writer was slow
					err = commit(b.Context(), batch)
				}
				if err != nil {
					b.Error(err)
					return
				}
				running = batch.Insert
			}
		})
	}
	all.Wait()
	return writers * batches * tasks / time.Since(began).Seconds()
}

// batch adds tasks that run, and ends the tasks of the batch before.
func (f *following) batch(running []*task.Task, tasks, followed int) *storage.Batch {
	now, owner := time.Now(), task.ID{1}
	b := new(storage.Batch)
	for i, t := range running {
		c := task.Change{Ref: t.Ref(), To: task.Done, By: owner, At: now, Outcome: task.Completed, NextEventAt: now.Add(7 * 24 * time.Hour)}
		var rows []*task.Task
		if i < followed {
			if !f.ends {
				c.To, c.Count, c.ReadyAt, c.NextEventAt = task.Waiting, task.Reset, now.Add(time.Hour), now.Add(time.Hour)
			}
			child := &task.Task{ID: t.ID.Child(now, fmt.Sprint(i)), Type: "mail", Payload: make([]byte, 256)}
			child.Create(task.Submitted, now, time.Time{})
			rows = []*task.Task{child}
		}
		b.Swap, b.Follow = append(b.Swap, c), append(b.Follow, rows)
	}
	if followed == 0 {
		b.Follow = nil
	}
	for range tasks {
		t := &task.Task{ID: f.ids.Next(now), Type: "mail", Payload: make([]byte, 256)}
		t.Create(task.Submitted, now, time.Time{})
		task.Change{Ref: t.Ref(), To: task.Processing, At: now, NextEventAt: now, Owner: owner, Node: "n"}.Apply(t)
		b.Insert = append(b.Insert, t)
	}
	return b
}
