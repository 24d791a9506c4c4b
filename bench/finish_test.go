package bench

import (
	"context"
	"fmt"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

// finishChildren is how many children an attempt of [BenchmarkFinishWithChildren] adds.
const finishChildren = 10

// BenchmarkFinishWithChildren measures the commits and the written bytes of one task after the other:
//
//	kind=alone     its attempt ends with a wait for a signal
//	kind=children  its attempt ends with ten children, and a wait for them
//	kind=inserts   there is no attempt: ten tasks are submitted by one call
//
// All tasks but the first are due in an hour, so the difference of the first two is the cost of adding ten children.
func BenchmarkFinishWithChildren(b *testing.B) {
	for _, s := range stores {
		for _, kind := range []string{"alone", "children", "inserts"} {
			b.Run(fmt.Sprintf("store=%s/kind=%s", s.name, kind), func(b *testing.B) { finish(b, openStore(b, s.open), kind) })
		}
	}
}

func finish(b *testing.B, store storage.Store, kind string) {
	later := time.Now().Add(time.Hour)
	end := func(context.Context, *task.Task) ([]byte, error) {
		if kind == "alone" {
			return nil, task.WaitFor([]string{"never"}, time.Time{})
		}
		reqs := make([]task.Request, finishChildren)
		for i := range reqs {
			reqs[i] = task.Request{Type: "child", At: later}
		}
		return nil, task.WaitForChildren([]task.ChildrenWait{{Name: "c"}}, time.Time{}, task.WithChildren("c", reqs...))
	}
	var commits atomic.Int64
	waits := make(chan struct{}, 1)
	e, err := engine.Open(b.Context(), engine.Config{
		Store:    store,
		Policies: policy.Set{Slots: inFlight, Types: map[string]policy.Type{"parent": policy.DefaultType(), "child": policy.DefaultType()}},
		Handlers: map[string]task.Handler{"parent": task.HandlerFunc(end)},
		Observer: engine.Observer{
			Committed: func(time.Duration, error) { commits.Add(1) },
			Saved: func(_ time.Time, _ task.Ref, t *task.Task) {
				if t != nil && t.State == task.Waiting {
					waits <- struct{}{}
				}
			},
		},
	})
	if err != nil {
		b.Fatal(err)
	}
	defer e.Close(context.Background())
	reqs := []engine.Request{{Type: "parent"}}
	if kind == "inserts" {
		reqs = nil
		for range finishChildren {
			reqs = append(reqs, engine.Request{Type: "child", At: later})
		}
	}
	written := writtenBytes(b)
	b.ResetTimer()
	for range b.N {
		if _, err := e.Submit(b.Context(), reqs...); err != nil {
			b.Fatal(err)
		}
		if kind != "inserts" {
			<-waits
		}
	}
	b.ReportMetric(float64(commits.Load())/float64(b.N), "commits/op")
	b.ReportMetric((writtenBytes(b)-written)/float64(b.N), "written-B/op")
}

// writtenBytes returns how many bytes the process has passed to the system to be written.
func writtenBytes(b *testing.B) (n float64) {
	data, err := os.ReadFile("/proc/self/io")
	if err != nil {
		b.Skip("only Linux says how many bytes a process writes: ", err)
	}
	var read int64
	if _, err := fmt.Sscanf(string(data), "rchar: %d\nwchar: %f", &read, &n); err != nil {
		b.Fatal(err)
	}
	return n
}
