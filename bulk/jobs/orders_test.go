package jobs_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/taskengine/taskengine/bulk"
	"github.com/taskengine/taskengine/bulk/jobs"
	"github.com/taskengine/taskengine/storage/memory"
	"github.com/taskengine/taskengine/task"
)

// Tasks that are resumed fail again at once, or are done and gone, while people give the job one order after another.
func TestOrdersLeaveNoTaskUnclear(t *testing.T) {
	t.Parallel()
	const tasks = 3000 // three plans
	for typ, isGone := range map[string]bool{"pay": false, "brief": true} {
		t.Run(typ, func(t *testing.T) {
			t.Parallel()
			seed := uint64(time.Now().UnixNano())
			t.Logf("seed %d", seed)
			rng := rand.New(rand.NewPCG(seed, 1))
			n := start(t, memory.New())
			ids := n.add(typ, tasks)
			if isGone {
				n.set(func(*task.Task) error { return nil })
			}
			j := n.prepare(bulk.Resume, "type="+typ)
			j.Total = tasks
			if _, err := n.Start(t.Context(), j); err != nil {
				t.Fatal(err)
			}
			give := func(s *jobs.Status, err error) {
				if err != nil && !errors.Is(err, jobs.ErrEnded) {
					t.Fatal(err)
				}
			}
			for range 40 {
				switch rng.IntN(4) {
				case 0:
					give(n.SetRate(t.Context(), j.Name, float64(1e5+rng.IntN(1e5)), "bert"))
				case 1:
					give(n.SetRate(t.Context(), j.Name, 0, "bert"))
				default:
					give(n.Jobs.Pause(t.Context(), j.Name, "bert", ""))
					give(n.Continue(t.Context(), j.Name, "bert", ""))
				}
				time.Sleep(time.Duration(rng.IntN(5000)) * time.Microsecond) // the next order comes at any moment of a plan
			}
			s := n.end(j.Name)
			if s.Phase != jobs.Done || s.State.Changed != tasks || s.State.Done() != tasks {
				t.Fatalf("got %s %+v", s.Phase, s.State)
			}
			n.await("the second attempt of each task", func() bool {
				for i := range ids {
					if n.ran(fmt.Sprintf(`{"n":%d,"type":%q}`, i, typ)) < 2 {
						return false
					}
				}
				return true
			})
			if !isGone {
				n.settled(ids...)
			}
			for i := range ids {
				if got := n.ran(fmt.Sprintf(`{"n":%d,"type":%q}`, i, typ)); got != 2 {
					t.Fatalf("task %d has run %d times", i, got)
				}
			}
		})
	}
}
