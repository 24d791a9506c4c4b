//go:build !race

package table

import (
	"fmt"
	"testing"

	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/task"
)

// valued returns a table with tasks of many values of a limit of the cluster, each of which allows one at a time.
func valued(slots int, limits ...policy.Limit) *Table {
	set := policy.Set{Slots: slots, Limits: map[string]policy.Limit{}, Types: map[string]policy.Type{}}
	names := []string{"value"}
	set.Limits["value"] = policy.Limit{Name: "value", Max: 1, Per: "payload.v", Cluster: true}
	for _, l := range limits {
		set.Limits[l.Name] = l
		names = append(names, l.Name)
	}
	set.Types["call"], set.Types["other"] = typeOf(names...), typeOf(names...)
	tab := New(Config{Capacity: 100_000, QueueCapacity: 1000, Policies: set, Permits: true})
	finishScan(tab)
	return tab
}

// grantAll answers the orders of a table by a coordinator that has all permits, and returns how many there were.
func (t *Table) grantAll(now int64) (count int) {
	for {
		orders, _ := t.TakeOrders(nil, nil)
		if len(orders) == 0 {
			return count
		}
		count += len(orders)
		for _, o := range orders {
			t.Hold(now, coord.Holding{Name: o.Name, Number: o.Number, Held: min(o.Want, o.Max), Share: o.Max})
		}
	}
}

// Of many values that wait, a node orders permits for the values that can start soon, and keeps them until they are used.
func TestAFewOrdersAreMadeForATaskHoweverManyValuesWait(t *testing.T) {
	const values, slots, each = 3000, 10, int64(1e9)
	tab := valued(slots)
	for i := range uint64(values) {
		tab.Add(0, task.Trigger{Queue: task.Queue{Type: "call", Group: task.GroupOf(fmt.Sprint(i))}, Rank: task.Rank{Seq: i}})
	}
	orders, started, now := 0, 0, int64(0)
	var running []Slot
	for ; started < values; now += each {
		for _, s := range running {
			tab.Free(now, s)
		}
		running = running[:0]
		for {
			orders += tab.grantAll(now)
			tr, s, ok := tab.Book(now)
			if !ok {
				break
			}
			if want := uint64(started); tr.Seq != want {
				t.Fatalf("task %d starts when it is the turn of %d", tr.Seq, want)
			}
			running, started = append(running, s), started+1
		}
		if len(running) != slots {
			t.Fatalf("%d of %d slots are used", len(running), slots)
		}
		for at, ok := tab.Wake(); ok && at <= now+each; at, ok = tab.Wake() {
			tab.Advance(max(at, now))
			orders += tab.grantAll(max(at, now))
		}
		tab.check(t)
	}
	if orders > 2*values+100 {
		t.Errorf("%d orders for %d tasks", orders, values)
	}
	t.Logf("%d orders for %d tasks", orders, values)
}

// A task of a better rank than the tasks ahead gets its permit at once.
func TestAnUrgentTaskDoesNotStandInLineForItsPermit(t *testing.T) {
	tab := valued(1)
	add := func(value string, priority uint8, seq uint64) {
		tab.Add(0, task.Trigger{Queue: task.Queue{Type: "call", Group: task.GroupOf(value)}, Rank: task.Rank{Priority: priority, Seq: seq}})
	}
	for i := range uint64(1000) {
		add(fmt.Sprint(i), 5, i)
	}
	tab.grantAll(0)
	_, slot, _ := tab.Book(0)
	tab.grantAll(0)
	add("urgent", 1, 2000)
	tab.grantAll(0)
	tab.Free(1, slot)
	if tr, _, ok := tab.Book(1); !ok || tr.Seq != 2000 {
		t.Errorf("task %d starts, %v, before the urgent one", tr.Seq, ok)
	}
}

// Values with tasks that cannot start for another reason do not keep others from ordering their permits: not a limit that
// is full or paused, and not values of another type.
func TestValuesThatCannotStartHoldUpNoOthersInLine(t *testing.T) {
	zero := policy.Override{Paused: true}
	for name, c := range map[string]struct {
		tenants policy.Limit
		change  policy.Overrides
	}{
		"full":                {tenants: policy.Limit{Max: 1}},
		"full on all nodes":   {tenants: policy.Limit{Max: 1, Cluster: true}},
		"paused":              {tenants: policy.Limit{Max: 3}, change: policy.Overrides{"tenant": {"busy": zero}}},
		"used up by its rate": {tenants: policy.Limit{Rate: policy.Rate{Count: 1, Per: 1e12}}},
	} {
		t.Run(name, func(t *testing.T) {
			c.tenants.Name, c.tenants.Per = "tenant", "payload.t"
			tab := valued(10, c.tenants)
			tab.Override(0, 1, c.change.Live())
			add := func(typ, value, tenant string, seq uint64) {
				tab.Add(0, task.Trigger{Queue: task.Queue{Type: typ, Group: task.GroupOf(value, tenant)}, Rank: task.Rank{Seq: seq}})
			}
			for i := range uint64(2000) {
				add("call", fmt.Sprint("v", i), "busy", i)
			}
			var begun []uint64
			book := func() {
				for {
					tr, s, ok := tab.Book(1)
					if !ok {
						if tab.grantAll(1) == 0 {
							return
						}
						continue
					}
					if _, err := tab.Begin(1, &s); err != nil {
						t.Fatal(err)
					}
					begun = append(begun, tr.Seq)
				}
			}
			book()
			add("call", "idle", "idle", 5000)
			add("other", "other", "idle too", 5001)
			book()
			got := map[uint64]bool{}
			for _, seq := range begun {
				got[seq] = true
			}
			if !got[5000] || !got[5001] || len(begun) > 3 {
				t.Errorf("the tasks %v begin; want those of the idle tenants among at most 3", begun)
			}
		})
	}
}
