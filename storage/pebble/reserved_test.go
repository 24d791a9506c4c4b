package pebble

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

// The row of a partition of a source changes with each transaction that adds tasks. Flushes then have a key at the begin of each
// table and keys at its end: if they were in one file, each compaction would rewrite the tables between.
func TestARowOfAReservedIDThatChangesHasNoTableRewritten(t *testing.T) {
	const batches, size = 400, 64
	s, err := Open(t.TempDir(), Options{CacheSize: 1 << 20, MemTableSize: 256 << 10})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	ids, now := task.NewIDs([32]byte{1}), time.Now()
	position := &task.Task{ID: task.ReservedID("a", "b"), Type: "source"}
	position.Create(task.Submitted, now, time.Time{})
	if _, err := s.Insert(t.Context(), position); err != nil {
		t.Fatal(err)
	}
	grabbed, err := s.Swap(t.Context(), task.Change{Ref: position.Ref(), To: task.Processing, At: now, Owner: task.ID{1}})
	if err != nil || grabbed[0] == nil {
		t.Fatal(grabbed, err)
	}
	for i := range batches {
		rows := make([]*task.Task, size)
		for i := range rows {
			rows[i] = &task.Task{ID: ids.Next(now), Type: "noop", Payload: make([]byte, 1<<10)}
			rows[i].Create(task.Submitted, now, time.Time{})
		}
		err := s.Update(t.Context(), func(tx storage.Tx) error {
			if _, err := tx.Insert(t.Context(), rows...); err != nil {
				return err
			}
			noted, err := tx.Note(t.Context(), task.Note{Ref: grabbed[0].Ref(), Checkpoint: fmt.Append(nil, i)})
			if err == nil && !noted[0] {
				err = errors.New("the row is not as expected")
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := s.db.Flush(); err != nil {
		t.Fatal(err)
	}
	var flushed, compacted uint64
	for _, l := range s.db.Metrics().Levels {
		flushed, compacted = flushed+l.TableBytesFlushed, compacted+l.TableBytesCompacted
	}
	if flushed < 1<<20 || compacted > flushed { // with whole tables in files it is more than three times as much
		t.Errorf("flushes have written %d bytes, and compactions %d", flushed, compacted)
	}
}
