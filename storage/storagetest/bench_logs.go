package storagetest

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

// BenchmarkLogs measures a call that appends to the logs of so many tasks ten lines each, as a node makes it.
func BenchmarkLogs(b *testing.B, open func(testing.TB) storage.Store) {
	lines := bytes.Repeat([]byte("x"), 10*140)
	for _, n := range []int{1, 10, 300} {
		b.Run(fmt.Sprintf("tasks=%d", n), func(b *testing.B) {
			keeper := open(b).(storage.LogKeeper)
			ids, mark := task.NewIDs([32]byte{7}), uint64(0)
			for b.Loop() {
				pieces := make([]storage.LogPiece, n)
				for i := range pieces {
					mark++
					pieces[i] = storage.LogPiece{Task: ids.Next(epoch), At: int64(mark), Mark: mark, Data: lines}
				}
				if err := keeper.AppendLogs(b.Context(), 4<<20, pieces...); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*n*10), "µs/line")
		})
	}
}
