package doctor

import (
	"log/slog"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/taskengine/taskengine/cmd/taskengine/internal/stores"
	"github.com/taskengine/taskengine/config"
	"github.com/taskengine/taskengine/engine/task"
	"github.com/taskengine/taskengine/storage/bolt"
)

func TestDoctorReportsHowFarItIs(t *testing.T) {
	folder := t.TempDir()
	store, err := bolt.Open(filepath.Join(folder, stores.BoltFile), bolt.Options{})
	if err != nil {
		t.Fatal(err)
	}
	const all = 2*progressEvery + 500
	ids, now := task.NewIDs([32]byte{1}), time.Now()
	rows := make([]*task.Task, all)
	for i := range rows {
		rows[i] = &task.Task{ID: ids.Next(now), Type: "mail", ReadyAt: now}
		rows[i].Create(task.Submitted, now, time.Time{})
	}
	if _, err := store.Insert(t.Context(), rows...); err != nil {
		t.Fatal(err)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	var steps []string
	var read []int64
	_, err = Examine(t.Context(), stores.Place{Driver: config.Bolt, Path: folder, Name: "bolt:" + folder}, Options{Keys: true, Progress: func(step string, done, total int64) {
		if len(steps) == 0 || steps[len(steps)-1] != step {
			steps = append(steps, step)
		}
		if total > 0 {
			read = append(read, done, total)
		}
	}}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"reading the keys of all tasks", "holding every index against the tasks", "counting the tasks", "reading the tasks that have not ended"}; !slices.Equal(steps, want) {
		t.Errorf("the steps are %q", steps)
	}
	if want := []int64{0, all, progressEvery, all, 2 * progressEvery, all}; !slices.Equal(read, want) {
		t.Errorf("it has read %v", read)
	}
}
