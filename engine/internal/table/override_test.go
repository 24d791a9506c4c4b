//go:build !race

package table

import (
	"testing"
	"time"

	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/task"
)

// rated returns a table with a single limit that starts one task an hour for each value.
func rated() *Table {
	typ := policy.DefaultType()
	typ.Limits = []string{"api"}
	tab := New(Config{Capacity: 100, QueueCapacity: 50, Policies: policy.Set{
		Limits: map[string]policy.Limit{"api": {Name: "api", Per: "payload.p", Rate: policy.Rate{Count: 1, Per: time.Hour}}},
		Types:  map[string]policy.Type{"call": typ},
	}})
	finishScan(tab)
	return tab
}

func withRate(r policy.Rate) policy.Live {
	return policy.Overrides{"api": {"": {Rate: &r}}}.Live()
}

func TestARateThatIsChangedAppliesToValuesThatAreNotInUse(t *testing.T) {
	for name, c := range map[string]struct {
		rate policy.Rate
		wait time.Duration
	}{
		"higher": {policy.Rate{Count: 10, Per: time.Second, Burst: 1}, 100 * time.Millisecond},
		"none":   {policy.Rate{}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			tab, start := rated(), int64(time.Hour)
			add := func(seq uint64) {
				tab.Add(start, task.Trigger{Queue: task.Queue{Type: "call", Group: "a"}, Rank: task.Rank{Seq: seq}})
			}
			add(1)
			_, slot, ok := tab.Book(start)
			if !ok {
				t.Fatal("the first does not start")
			}
			tab.Free(start, slot)
			if len(tab.nodes) != 0 {
				t.Fatal("the value is in use")
			}
			tab.Override(start, 1, withRate(c.rate))
			add(2)
			soon := start + int64(c.wait)
			tab.Advance(soon)
			if _, _, ok := tab.Book(soon); !ok {
				t.Errorf("the second does not start %v after the first", c.wait)
			}
		})
	}
}

func TestARateThatIsChangedForAValueThatWasNotInUseIsNotExceeded(t *testing.T) {
	tab, now := rated(), int64(time.Hour)
	started := 0
	for seq := range uint64(5) { // the value is in use, and not in use, in turn
		tab.Add(now, task.Trigger{Queue: task.Queue{Type: "call", Group: "a"}, Rank: task.Rank{Seq: seq}})
		if _, slot, ok := tab.Book(now); ok {
			tab.Free(now, slot)
			started++
		}
		tab.Override(now, 1, withRate(policy.Rate{Count: 1, Per: time.Second}))
		if _, slot, ok := tab.Book(now); ok {
			tab.Free(now, slot)
			started++
		}
		now += int64(100 * time.Millisecond)
	}
	if started != 1 {
		t.Errorf("%d started within half a second, at one a second", started)
	}
}

func TestARateThatIsChangedBackIsNotExceeded(t *testing.T) {
	tab := rated()
	for seq := range uint64(9) {
		tab.Add(0, task.Trigger{Queue: task.Queue{Type: "call", Group: "a"}, Rank: task.Rank{Seq: seq}})
	}
	now, started := int64(time.Hour), 0
	for i := range 50 { // within five seconds
		rate := policy.Rate{Count: 1, Per: time.Hour}
		if i%2 == 0 {
			rate = policy.Rate{Count: 1, Per: 2 * time.Hour}
		}
		tab.Override(now, uint64(i), withRate(rate))
		if _, slot, ok := tab.Book(now); ok {
			tab.Free(now, slot)
			started++
		}
		now += int64(100 * time.Millisecond)
		tab.Advance(now)
	}
	if started != 1 {
		t.Errorf("%d started, at one an hour or less", started)
	}
}
