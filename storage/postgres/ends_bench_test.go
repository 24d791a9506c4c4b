package postgres_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/taskengine/taskengine/internal/pgtest"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/storage/postgres"
	"github.com/taskengine/taskengine/storage/postgres/postgrestest"
	"github.com/taskengine/taskengine/task"
)

// BenchmarkEnds measures the commits that end attempts of tasks with 256 bytes: how many tasks end in a second by two writers, and how many
// bytes the server writes to its log for each. A batch ends so many attempts as it has tasks. They end so:
//
//	end=done      plainly
//	end=wait      with a wait for a signal
//	end=woken     with a wait for a signal that came before
//	end=children  with ten children, and a wait for them
//	end=separate  with a wait for a signal, after ten tasks were added by a commit each
//	end=retry     with an error, after which they are tried again
//	end=failed    as failed, followed by the report of that to the parent
func BenchmarkEnds(b *testing.B) {
	for _, end := range []string{"done", "wait", "woken", "children", "separate", "retry", "failed"} {
		for _, tasks := range []int{1, 128} {
			b.Run(fmt.Sprintf("end=%s/tasks=%d", end, tasks), func(b *testing.B) { benchmarkEnds(b, end, tasks) })
		}
	}
}

func benchmarkEnds(b *testing.B, end string, tasks int) {
	url := server.Database(b)
	e := &endings{b: b, s: postgrestest.Open(b, url), ids: task.NewIDs([32]byte{1}), now: time.Now(), end: end}
	c := pgtest.Connect(b, url)
	const writers = 2
	var running [writers][]*task.Task
	for w := range running {
		running[w] = e.running((b.N + 1) * tasks) // those of the first batch make the partitions, and prepare the statements
	}
	written := func() (n int64) {
		if err := c.QueryRow(b.Context(), "select (pg_current_wal_insert_lsn() - '0/0')::bigint").Scan(&n); err != nil {
			b.Fatal(err)
		}
		return n
	}
	var before int64
	for _, from := range []int{0, 1} {
		if from == 1 {
			before = written()
			b.ResetTimer()
		}
		var all sync.WaitGroup
		for w := range running {
			all.Go(func() {
				rows := running[w][:tasks]
				if from == 1 {
					rows = running[w][tasks:]
				}
				for some := range slices.Chunk(rows, tasks) {
					e.finish(some)
				}
			})
		}
		all.Wait()
	}
	ended := float64(b.N * tasks * writers)
	b.ReportMetric(ended/b.Elapsed().Seconds(), "tasks/s")
	b.ReportMetric(float64(written()-before)/ended, "WAL-B/task")
}

// endings is the load of BenchmarkEnds.
type endings struct {
	b   *testing.B
	s   *postgres.Store
	ids *task.IDs
	now time.Time
	end string
}

// running adds tasks that run.
func (e *endings) running(n int) (rows []*task.Task) {
	for i := range n {
		t := &task.Task{ID: e.ids.Next(e.now), Type: "mail", Payload: make([]byte, 256)}
		t.Create(task.Submitted, e.now, time.Time{})
		task.Change{Ref: t.Ref(), To: task.Processing, At: e.now, NextEventAt: e.now, Owner: task.ID{1}, Node: "n"}.Apply(t)
		if e.end == "woken" {
			t.Signals = &task.Signals{Kept: []task.Signal{{ID: e.ids.Next(e.now), Name: "paid", At: e.now, Data: make([]byte, 64)}}}
		}
		if rows = append(rows, t); len(rows)%500 == 0 || i == n-1 {
			e.commit(&storage.Batch{Insert: rows[(len(rows)-1)/500*500:]})
		}
	}
	return rows
}

// finish ends attempts.
func (e *endings) finish(running []*task.Task) {
	b := new(storage.Batch)
	for _, t := range running {
		c := task.Change{Ref: t.Ref(), To: task.Waiting, By: t.Owner, At: e.now, Outcome: task.Completed, Count: task.Reset}
		var rows []*task.Task
		switch e.end {
		case "done":
			c.To, c.Count, c.NextEventAt = task.Done, task.Keep, e.now.Add(7*24*time.Hour)
		case "retry":
			c.Outcome, c.Count, c.Error, c.NextEventAt = task.Errored, task.Keep, "connection refused", e.now.Add(time.Hour)
		case "failed":
			c.To, c.Outcome, c.Count, c.Error, c.NextEventAt = task.Failed, task.Errored, task.Keep, "connection refused", e.now.Add(7*24*time.Hour)
			rows = e.others(t.ID, 1)
		case "children":
			c.Adds = []task.AddedChildren{{Name: "page", Count: 10}}
			c.Await = &task.Await{Names: []string{task.AwaitsChildren}, Children: []task.ChildrenWait{{Name: "page"}}}
			rows = e.others(t.ID, 10)
		case "separate":
			for _, row := range e.others(t.ID, 10) {
				e.commit(&storage.Batch{Insert: []*task.Task{row}})
			}
			fallthrough
		default:
			c.Await = &task.Await{Names: []string{"paid"}}
		}
		b.Swap, b.Follow = append(b.Swap, c), append(b.Follow, rows)
	}
	for i, t := range e.commit(b).Swapped {
		if t == nil {
			e.b.Errorf("the attempt of %v did not end", b.Swap[i].ID)
		}
	}
}

// others returns new tasks with a parent.
func (e *endings) others(parent task.ID, n int) (rows []*task.Task) {
	for i := range n {
		p := &task.Parent{ID: parent, Name: "page", Index: uint32(i)}
		t := &task.Task{ID: p.Child(), Type: "page", Payload: make([]byte, 256), Parent: p, ReadyAt: e.now.Add(time.Hour)}
		t.Create(task.Waiting, e.now, t.ReadyAt)
		rows = append(rows, t)
	}
	return rows
}

func (e *endings) commit(b *storage.Batch) storage.Outcome {
	out, err := e.s.Commit(e.b.Context(), b).Wait()
	if err != nil {
		e.b.Error(err)
	}
	return out
}
