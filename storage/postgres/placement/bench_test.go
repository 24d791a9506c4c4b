package placement_test

import (
	"testing"

	"github.com/taskengine/taskengine/storage/postgres/placement"
	"github.com/taskengine/taskengine/storage/postgres/postgrestest"
	"github.com/taskengine/taskengine/task"
)

// BenchmarkMove moves tasks to another database of the same server and back. Nine tenths of them have
// ended.
func BenchmarkMove(b *testing.B) {
	const tasks = 100_000
	ps := []placement.Database{{Name: "a", Store: postgrestest.Open(b, server.Database(b))}, {Name: "b", Store: postgrestest.Open(b, server.Database(b))}}
	for range tasks / 1000 {
		rows := make([]*task.Task, 1000)
		for i := range rows {
			if rows[i] = rowOf(uint16(i)); i%10 != 0 {
				rows[i].State, rows[i].Result = task.Done, make([]byte, 256)
			}
		}
		if _, err := ps[0].Insert(b.Context(), rows...); err != nil {
			b.Fatal(err)
		}
	}
	if _, err := placement.Divide(b.Context(), ps...); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if err := placement.Move(b.Context(), ps[0], ps[1], task.AllShards(), nil); err != nil {
			b.Fatal(err)
		}
		ps[0], ps[1] = ps[1], ps[0]
	}
	b.ReportMetric(tasks*float64(b.N)/b.Elapsed().Seconds(), "tasks/s")
}
