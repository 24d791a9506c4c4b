package limits

import (
	"context"
	"errors"
	"path/filepath"
	"time"

	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/storage/bolt"
	"github.com/taskengine/taskengine/storage/pebble"
	"github.com/taskengine/taskengine/task"
)

const (
	livesPerCommit = 256
	// livesCommitters is the number of goroutines that commit: one builds its transaction
	// while the other waits for the disk.
	livesCommitters = 2
)

func livesProbes() []probe {
	stores := []struct {
		name string
		open func(dir string) (storage.Store, error)
	}{
		{"pebble", func(dir string) (storage.Store, error) { return pebble.Open(dir, pebble.Options{}) }},
		{"bolt", func(dir string) (storage.Store, error) {
			return bolt.Open(filepath.Join(dir, "tasks.bolt"), bolt.Options{})
		}},
	}
	var all []probe
	for _, s := range stores {
		all = append(all, probe{
			limits: []Limit{{Lives(s.name), PerSecond, "tasks inserted and finished in " + s.name + " without an engine"}},
			share:  3,
			measure: func(ctx context.Context, t *trial) error {
				store, err := s.open(t.dir)
				if err != nil {
					return err
				}
				return errors.Join(measureLives(ctx, t, store), store.Close())
			},
		})
	}
	return all
}

// measureLives inserts running tasks and finishes the tasks of the previous commit, as an engine does
// under load.
func measureLives(ctx context.Context, t *trial, store storage.Store) error {
	ids := task.NewIDs([32]byte{1})
	owner := ids.Next(time.Now())
	running := make([][]task.Ref, livesCommitters)
	return t.repeat(ctx, func(end time.Time) ([]float64, error) {
		rate, err := together(ctx, livesCommitters, end, func(i int) (int, error) {
			ended := len(running[i])
			next, err := stepLives(ctx, store, ids, owner, running[i])
			running[i] = next
			return ended, err
		})
		return []float64{rate}, err
	})
}

// stepLives finishes the running tasks, inserts the next ones and returns them.
func stepLives(ctx context.Context, store storage.Store, ids *task.IDs, owner task.ID, running []task.Ref) ([]task.Ref, error) {
	now := time.Now()
	rows := make([]*task.Task, livesPerCommit)
	payload := make([]byte, recordSize)
	next := make([]task.Ref, len(rows))
	for i := range rows {
		t := &task.Task{ID: ids.Next(now), Type: "noop", Priority: task.DefaultPriority, Payload: payload}
		t.Create(task.Submitted, now, time.Time{})
		task.Change{Ref: t.Ref(), To: task.Processing, At: now, NextEventAt: now, Owner: owner}.Apply(t)
		rows[i], next[i] = t, t.Ref()
	}
	ends := make([]task.Change, len(running))
	for i, r := range running {
		ends[i] = task.Change{Ref: r, To: task.Done, At: now, NextEventAt: now.Add(24 * time.Hour)}
	}
	err := store.Update(ctx, func(tx storage.Tx) error {
		if _, err := tx.Insert(ctx, rows...); err != nil {
			return err
		}
		_, err := tx.Swap(ctx, ends...)
		return err
	})
	return next, err
}
