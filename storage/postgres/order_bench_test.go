//go:build linux

package postgres_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/taskengine/taskengine/internal/pgtest"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/storage/postgres"
	"github.com/taskengine/taskengine/storage/postgres/postgrestest"
	"github.com/taskengine/taskengine/task"
)

// BenchmarkOrderedLife adds tasks, 200 in a batch, grabs the ready ones, and ends them: without ordering keys, with
// one for each task, and with 20 for 200 tasks. It reports the WAL and the processor time of the server for a task.
func BenchmarkOrderedLife(b *testing.B) {
	for name, keyOf := range map[string]func(batch, n int) string{
		"unordered": func(int, int) string { return "" },
		"keys of 1": func(batch, n int) string { return fmt.Sprint(batch, " ", n) },
		"keys of 10": func(batch, n int) string {
			return fmt.Sprint(batch, " ", n/10)
		},
		"keys of 10 that inherit": func(batch, n int) string {
			return fmt.Sprint(batch, " ", n/10)
		},
	} {
		b.Run(name, func(b *testing.B) {
			url := server.Database(b)
			s, c := postgrestest.Open(b, url), pgtest.Connect(b, url)
			ids := task.NewIDs([32]byte{1})
			inherits := strings.HasSuffix(name, "inherit")
			life(b, s, ids, keyOf, inherits, -1, 200) // connects, and makes the partition
			wal, cpu := spent(b, c)
			b.ResetTimer()
			tasks := 0
			for batch := 0; b.Loop(); batch++ {
				life(b, s, ids, keyOf, inherits, batch, 200)
				tasks += 200
			}
			b.StopTimer()
			nowWAL, nowCPU := spent(b, c)
			b.ReportMetric(float64(nowWAL-wal)/float64(tasks), "wal-B/task")
			b.ReportMetric(float64((nowCPU-cpu).Microseconds())/float64(tasks), "cpu-us/task")
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(tasks), "us/task")
		})
	}
}

// life adds the tasks of a batch and ends all of them.
func life(b *testing.B, s *postgres.Store, ids *task.IDs, keyOf func(batch, n int) string, inherits bool, batch, tasks int) {
	b.Helper()
	commit := func(do *storage.Batch) storage.Outcome {
		out, err := s.Commit(b.Context(), do).Wait()
		if err != nil {
			b.Fatal(err)
		}
		return out
	}
	var add storage.Batch
	for n := range tasks {
		now := time.Now()
		t := &task.Task{ID: ids.Next(now), Type: "mail", OrderingKey: keyOf(batch, n), Payload: make([]byte, 256), Inherits: inherits}
		t.Create(task.Submitted, now, time.Time{})
		add.Insert = append(add.Insert, t)
	}
	commit(&add)
	for {
		ready, err := s.Ready(b.Context(), storage.ReadyQuery{Queue: task.Queue{Type: "mail"}, Limit: tasks})
		if err != nil {
			b.Fatal(err)
		}
		if len(ready) == 0 {
			return
		}
		var grab, end storage.Batch
		now := time.Now()
		for _, r := range ready {
			grab.Swap = append(grab.Swap, task.Change{Ref: r.Ref, To: task.Processing, At: now, NextEventAt: now, Owner: task.ID{1}})
		}
		for _, t := range commit(&grab).Swapped {
			end.Swap = append(end.Swap, task.Change{
				Ref: t.Ref(), To: task.Done, At: now, Outcome: task.Completed, OrderingKey: t.OrderingKey, NextEventAt: now.Add(7 * 24 * time.Hour),
			})
		}
		commit(&end)
	}
}

// spent returns the WAL that the server has written, and the processor time of its sessions in the database.
func spent(b *testing.B, c *pgx.Conn) (wal int64, cpu time.Duration) {
	b.Helper()
	var pids []int
	if err := c.QueryRow(b.Context(), `
select (pg_current_wal_lsn() - '0/0')::bigint, array_agg(pid) from pg_stat_activity
where datname = current_database() and pid <> pg_backend_pid()`).Scan(&wal, &pids); err != nil {
		b.Fatal(err)
	}
	for _, pid := range pids {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			b.Fatal(err)
		}
		var user, system int64
		words := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
		if _, err := fmt.Sscan(words[11]+" "+words[12], &user, &system); err != nil {
			b.Fatal(err)
		}
		cpu += time.Duration(user+system) * 10 * time.Millisecond
	}
	return wal, cpu
}
