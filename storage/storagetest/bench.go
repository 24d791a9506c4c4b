package storagetest

import (
	"context"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

// inFlight is how many tasks are in progress at a time in [Benchmark], in batches of
// inFlight/committers.
const (
	inFlight   = 512
	committers = 2
)

// Benchmark measures the bare loop of the engine on a store: many tasks are in progress, every
// commit has the changes of many tasks, and each commit is synced. One operation is the whole
// life of one task.
func Benchmark(b *testing.B, open func(testing.TB) storage.Store) {
	for _, life := range []life{
		{"fused", task.Processing, 0},
		{"unfused", task.Submitted, 0},
		{"fused and kept", task.Processing, 24 * time.Hour},
		{"unfused and kept", task.Submitted, 24 * time.Hour},
	} {
		b.Run(life.name, func(b *testing.B) { benchmarkLives(b, open(b), life) })
	}
}

// life is the sequence of changes of a task: inserted as grabbed and finished, which is two
// changes, or inserted, grabbed and finished. Every running task has a NextEventAt, and so has a
// finished one that is kept for a limited time only.
type life struct {
	name     string
	first    task.State
	keepDone time.Duration // zero is for ever
}

// timeout is the time from the grab of a task to its NextEventAt.
const timeout = time.Minute

// in returns the NextEventAt after d.
func in(now time.Time, d time.Duration) time.Time {
	if d == 0 {
		return time.Time{}
	}
	return task.Stamp(now.Add(d))
}

func benchmarkLives(b *testing.B, s storage.Store, life life) {
	ids := task.NewIDs([32]byte{1})
	var left atomic.Int64
	left.Store(int64(b.N))
	var before, after syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &before); err != nil {
		b.Fatal(err)
	}
	b.ResetTimer()
	var wg sync.WaitGroup
	for range committers {
		wg.Go(func() {
			c := committer{store: s, ids: ids, life: life}
			for {
				n := min(inFlight/committers, int(left.Add(-inFlight/committers))+inFlight/committers)
				done, err := c.step(b.Context(), max(0, n))
				if err != nil {
					b.Error(err)
					return
				}
				if n <= 0 && done {
					return
				}
			}
		})
	}
	wg.Wait()
	b.StopTimer()
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &after); err != nil {
		b.Fatal(err)
	}
	cpu := time.Duration(after.Utime.Nano() + after.Stime.Nano() - before.Utime.Nano() - before.Stime.Nano())
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "tasks/s")
	b.ReportMetric(float64(cpu.Microseconds())/float64(b.N), "cpu-us/task")
}

// committer moves a batch of tasks to the next state with every commit.
type committer struct {
	store     storage.Store
	ids       *task.IDs
	life      life
	submitted []task.Ref // to be grabbed
	grabbed   []task.Ref // to be finished
}

var benchmarkPayload = []byte(`{"account":"NL91ABNA0417164300","amount":"12.50","currency":"EUR","reference":"invoice 2024-117"}`)

// step inserts n tasks and moves the earlier ones. It reports whether none is left.
func (c *committer) step(ctx context.Context, n int) (done bool, err error) {
	now := time.Now()
	fresh := make([]*task.Task, n)
	rows := make([]task.Task, n)
	for i := range fresh {
		at := task.Stamp(now)
		rows[i] = task.Task{
			ID: c.ids.Next(now), Version: 1, State: c.life.first, Type: "payout", Shard: 7, Priority: 5,
			CreatedAt: at, ReadyAt: at, UpdatedAt: at, Payload: benchmarkPayload,
		}
		if c.life.first == task.Processing {
			rows[i].Owner, rows[i].StartedAt, rows[i].Attempt = task.ID{1}, at, 1
			rows[i].NextEventAt = in(now, timeout)
		}
		fresh[i] = &rows[i]
	}
	changes := make([]task.Change, 0, len(c.submitted)+len(c.grabbed))
	for _, r := range c.submitted {
		changes = append(changes, task.Change{Ref: r, To: task.Processing, At: now, Owner: task.ID{1}, NextEventAt: in(now, timeout)})
	}
	for _, r := range c.grabbed {
		changes = append(changes, task.Change{Ref: r, To: task.Done, At: now, Result: []byte("ok"), NextEventAt: in(now, c.life.keepDone)})
	}
	batch := &storage.Batch{Insert: fresh, Swap: changes}
	out, err := c.store.Commit(ctx, batch).Wait()
	if err != nil {
		return true, err
	}
	c.submitted, c.grabbed = c.submitted[:0], c.grabbed[:0]
	for _, t := range fresh {
		c.follow(t)
	}
	for _, t := range out.Swapped {
		c.follow(t)
	}
	return len(c.submitted)+len(c.grabbed) == 0, err
}

func (c *committer) follow(t *task.Task) {
	switch t.State {
	case task.Submitted:
		c.submitted = append(c.submitted, t.Ref())
	case task.Processing:
		c.grabbed = append(c.grabbed, t.Ref())
	}
}
