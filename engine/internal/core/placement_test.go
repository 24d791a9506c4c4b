//go:build !race

package core

import (
	"testing"
	"time"

	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/task"
)

// A node acts when the time of a task comes that it owns and may not run, and starts it in no way.
func TestATaskThatIsForOtherNodesIsNotStartedInAnyWay(t *testing.T) {
	here, away := task.Queue{Type: "mail"}, task.Queue{Type: "mail", Group: "acme"}
	c := New(Config{
		Policies: policy.Set{Slots: 1, Types: map[string]policy.Type{"mail": policy.DefaultType()}}, Handled: map[string]bool{"mail": true},
		Capacity: 100, QueueCapacity: 100, Chance: func() float64 { return 0 },
		Placement: func(q task.Queue) Placement { return Placement{Nodes: q.Group, Elsewhere: q == away} },
	})
	now := time.Unix(1_000_000, 0)
	var r Ready
	c.Take(&r)
	c.Scanned(nil, true)
	c.DueLoaded(now, DueLoad{State: task.Waiting}, nil, true)
	c.DueLoaded(now, DueLoad{State: task.Submitted}, nil, true)
	row := func(n byte, q task.Queue, at time.Time) *task.Task {
		return &task.Task{ID: task.ID{15: n}, Type: q.Type, Group: q.Group, Shard: 1, ReadyAt: at}
	}
	fused := row(1, away, time.Time{})
	c.Submit(now, fused)
	if fused.State != task.Submitted {
		t.Errorf("it is %v when it is added", fused.State)
	}
	c.Inserted(now, fused, true)
	late := row(2, away, now.Add(time.Second))
	c.Submit(now, late)
	c.Inserted(now, late, true)
	hinted := row(3, away, time.Time{})
	hinted.Create(task.Submitted, now, time.Time{})
	c.Observe(now, hinted.Hint())
	now = now.Add(2 * time.Second)
	c.Tick(now)
	c.Take(&r)
	if len(r.Grabs) > 0 || len(r.Saves) != 1 || r.Saves[0].ID != late.ID || r.Saves[0].To != task.Submitted {
		t.Errorf("the grabs are %v and the saves %v", r.Grabs, r.Saves)
	}
	if c.Busy() != 0 {
		t.Errorf("%d slots are taken", c.Busy())
	}
	other := row(4, here, time.Time{})
	if c.Submit(now, other); other.State != task.Processing {
		t.Errorf("another task is %v when it is added", other.State)
	}
}
