package storagetest

import (
	"fmt"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

// BenchmarkBacklogOfKeys measures how a backlog of ordering keys is worked off that is in the store only: the ends of 100
// heads in a commit, with the grabs of the next ones of their keys. One operation is one task. With inherit, each
// promotion also finds the priority that is lent. open opens the store of a folder on a real disk, twice: the second time it
// has nothing in memory.
func BenchmarkBacklogOfKeys(b *testing.B, open func(folder string) (storage.Store, error)) {
	for _, c := range []struct {
		name     string
		keys     int
		inherits bool
	}{{"keys=100", 100, false}, {"keys=1000", 1000, false}, {"keys=1000/inherit", 1000, true}, {"keys=10000", 10_000, false}} {
		b.Run(c.name, func(b *testing.B) {
			folder, err := os.MkdirTemp("/var/tmp", "backlog-bench-")
			if err != nil {
				b.Fatal(err)
			}
			defer os.RemoveAll(folder)
			in := func(do func(storage.Store)) {
				s, err := open(folder)
				if err != nil {
					b.Fatal(err)
				}
				defer func() {
					if err := s.Close(); err != nil {
						b.Error(err)
					}
				}()
				do(s)
			}
			k := &keyBacklog{heads: make([]task.Ref, c.keys), inherits: c.inherits}
			in(func(s storage.Store) { k.add(b, s, b.N+c.keys) })
			in(func(s storage.Store) { k.workOff(b, s, b.N) })
		})
	}
}

// keyBacklog is a backlog of ordering keys.
type keyBacklog struct {
	heads    []task.Ref // of each key, grabbed
	inherits bool       // the type of the tasks inherits
	done     int        // tasks that have ended
}

// ordersPerCommit is how many tasks a commit adds or ends.
const ordersPerCommit = 100

// add adds n tasks, or some more, of the keys in turn, and grabs the heads.
func (k *keyBacklog) add(b *testing.B, s storage.Store, n int) {
	ids, now := task.NewIDs([32]byte{1}), time.Now()
	of := make(map[task.ID]int)
	for added := 0; added < n; added += ordersPerCommit {
		do := new(storage.Batch)
		for i := added; i < added+ordersPerCommit; i++ {
			at := task.Stamp(now.Add(time.Duration(i) * time.Millisecond))
			t := &task.Task{
				ID: ids.Next(at), Type: "payout", Shard: 7, Priority: 5, OrderingKey: fmt.Sprint("customer ", i%len(k.heads)),
				ReadyAt: at, Payload: benchmarkPayload, Inherits: k.inherits,
			}
			t.Create(task.Submitted, at, time.Time{})
			if i < len(k.heads) {
				of[t.ID] = i
			}
			do.Insert = append(do.Insert, t)
		}
		grabs := new(storage.Batch)
		for _, h := range commitBatch(b, s, do).Heads {
			if _, ok := of[h.ID]; ok {
				grabs.Swap = append(grabs.Swap, grabAt(now, h.Ref))
			}
		}
		for _, t := range commitBatch(b, s, grabs).Swapped {
			k.heads[of[t.ID]] = t.Ref()
		}
	}
}

// workOff ends n tasks.
func (k *keyBacklog) workOff(b *testing.B, s storage.Store, n int) {
	now := time.Now()
	before := processorTime(b)
	b.ResetTimer()
	for k.done = 0; k.done < n; k.done += ordersPerCommit {
		some := k.heads[k.done%len(k.heads):][:ordersPerCommit]
		do := new(storage.Batch)
		for i, ref := range some {
			do.Swap = append(do.Swap, task.Change{Ref: ref, To: task.Done, Outcome: task.Completed, At: now})
			do.Heads = append(do.Heads, storage.HeadGrab{After: i, Queue: task.Queue{Type: "payout"}, Priority: 5, Grab: grabAt(now, task.Ref{})})
		}
		for i, t := range commitBatch(b, s, do).Grabbed {
			if t == nil {
				b.Fatalf("no task follows %v", some[i])
			}
			some[i] = t.Ref()
		}
	}
	b.StopTimer()
	cpu := processorTime(b) - before
	b.ReportMetric(float64(cpu.Microseconds())/float64(k.done), "cpu-us/task")
}

func commitBatch(b *testing.B, s storage.Store, do *storage.Batch) storage.Outcome {
	b.Helper()
	out, err := s.Commit(b.Context(), do).Wait()
	if err != nil {
		b.Fatal(err)
	}
	return out
}

func grabAt(now time.Time, ref task.Ref) task.Change {
	return task.Change{Ref: ref, To: task.Processing, At: now, Owner: task.ID{1}, NextEventAt: now.Add(timeout)}
}

// BenchmarkOrderedLife measures the processor time of a task that is added, 200 in a batch, grabbed and ended: without
// ordering keys, with one for each task, and with 20 for 200 tasks. open opens a store on a real disk.
func BenchmarkOrderedLife(b *testing.B, open func(testing.TB) storage.Store) {
	const tasks = 200
	for _, c := range []struct {
		name     string
		each     int // tasks of a key; 0: they have none
		inherits bool
	}{{"unordered", 0, false}, {"keys of 1", 1, false}, {"keys of 10", 10, false}, {"keys of 10 that inherit", 10, true}} {
		b.Run(c.name, func(b *testing.B) {
			s, ids := open(b), task.NewIDs([32]byte{1})
			before := processorTime(b)
			done := 0
			for batch := 0; b.Loop(); batch++ {
				now := time.Now()
				add := new(storage.Batch)
				for n := range tasks {
					t := &task.Task{ID: ids.Next(now), Type: "mail", Payload: benchmarkPayload, Inherits: c.inherits}
					if c.each > 0 {
						t.OrderingKey = fmt.Sprint(batch, " ", n/c.each)
					}
					t.Create(task.Submitted, now, time.Time{})
					add.Insert = append(add.Insert, t)
				}
				ready := commitBatch(b, s, add).Heads
				if c.each == 0 {
					for _, t := range add.Insert {
						ready = append(ready, t.Hint())
					}
				}
				for len(ready) > 0 {
					grabs, ends := new(storage.Batch), new(storage.Batch)
					for _, h := range ready {
						grabs.Swap = append(grabs.Swap, grabAt(now, h.Ref))
					}
					for _, t := range commitBatch(b, s, grabs).Swapped {
						ends.Swap = append(ends.Swap, task.Change{Ref: t.Ref(), To: task.Done, Outcome: task.Completed, At: now, OrderingKey: t.OrderingKey})
					}
					ready = commitBatch(b, s, ends).Heads
				}
				done += tasks
			}
			b.ReportMetric(float64((processorTime(b)-before).Microseconds())/float64(done), "cpu-us/task")
		})
	}
}

func processorTime(b *testing.B) time.Duration {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		b.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
