package table

import (
	"testing"
	"time"

	"github.com/taskengine/taskengine/engine/policy"
	"github.com/taskengine/taskengine/engine/task"
)

func TestRateAdmitsABurstAndThenOneInEveryInterval(t *testing.T) {
	typ := policy.DefaultType()
	typ.Limits = []string{"api"}
	for name, limit := range map[string]policy.Limit{
		"one limit":          {Name: "api", Rate: policy.Rate{Count: 10, Per: time.Second, Burst: 3}},
		"one for each value": {Name: "api", Per: "payload.p", Rate: policy.Rate{Count: 10, Per: time.Second, Burst: 3}},
	} {
		t.Run(name, func(t *testing.T) {
			set := policy.Set{Limits: map[string]policy.Limit{"api": limit}, Types: map[string]policy.Type{"call": typ}}
			tab := New(Config{Capacity: 100, LeafCapacity: 50, Policies: set})
			finishScan(tab)
			leaf := task.Leaf{Type: "call"}
			if limit.Per != "" {
				leaf.Group = "a"
			}
			for seq := range uint64(7) {
				tab.Add(0, task.Trigger{Leaf: leaf, Rank: task.Rank{Seq: seq}})
			}
			var starts []time.Duration
			now := int64(time.Hour)
			for tab.Len() > 0 {
				if _, slot, ok := tab.Book(now); ok {
					starts = append(starts, time.Duration(now)-time.Hour)
					tab.Free(now, slot)
					continue
				}
				at, ok := tab.Wake()
				if !ok || at <= now {
					t.Fatalf("%d tasks wait and nothing will wake them: %v %v", tab.Len(), at, ok)
				}
				now = at
				tab.Advance(now)
			}
			want := []time.Duration{0, 0, 0, 100, 200, 300, 400}
			for i, at := range starts {
				if at != want[i]*time.Millisecond {
					t.Fatalf("started at %v, want %v ms", starts, want)
				}
			}
			tab.Advance(now + int64(time.Minute))
			if limit.Per != "" && (len(tab.nodes) > 0 || len(tab.leaves) > 0) {
				t.Errorf("%d limits and %d leaves are kept for values that nobody uses", len(tab.nodes), len(tab.leaves))
			}
		})
	}
}

func TestRateIsNotSpentOnWhatNeverBegan(t *testing.T) {
	typ := policy.DefaultType()
	typ.Limits = []string{"api"}
	set := policy.Set{
		Limits: map[string]policy.Limit{"api": {Name: "api", Rate: policy.Rate{Count: 1, Per: time.Hour}}},
		Types:  map[string]policy.Type{"call": typ},
	}
	tab := New(Config{Capacity: 100, LeafCapacity: 50, Policies: set})
	finishScan(tab)
	for seq := range uint64(2) {
		tab.Add(0, task.Trigger{Leaf: task.Leaf{Type: "call"}, Rank: task.Rank{Seq: seq}})
	}
	_, slot, _ := tab.Book(1)
	tab.Return(1, slot)
	if _, _, ok := tab.Book(1); !ok {
		t.Error("the rate was spent on a task that was never begun")
	}
	if _, _, ok := tab.Book(1); ok {
		t.Error("the rate admitted two")
	}
}
