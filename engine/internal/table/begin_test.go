//go:build !race

package table

import (
	"strings"
	"testing"
	"time"

	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/task"
)

// paced returns a table with tasks under one limit.
func paced(l policy.Limit, tasks int) *Table {
	l.Name = "api"
	set := policy.Set{Limits: map[string]policy.Limit{"api": l}, Types: map[string]policy.Type{"call": typeOf("api")}}
	tab := New(Config{Capacity: 100, QueueCapacity: 90, Policies: set, Permits: l.Cluster})
	finishScan(tab)
	for seq := range tasks {
		tab.Add(0, task.Trigger{Queue: task.Queue{Type: "call"}, Rank: task.Rank{Seq: uint64(seq)}})
	}
	return tab
}

// bookAll books until a time, whenever the table wakes, and returns the slots.
func (t *Table) bookAll(now, until int64) (slots []Slot) {
	for {
		t.Advance(now)
		for {
			_, s, ok := t.Book(now)
			if !ok {
				break
			}
			slots = append(slots, s)
		}
		at, ok := t.Wake()
		if !ok || at > until {
			return slots
		}
		now = max(now, at)
	}
}

const ms = int64(time.Millisecond)

// While the store does not answer, a node books the burst of a rate and the tasks that begin within lookAhead.
func TestFewTasksAreBookedUnderARateBeforeTheyBegin(t *testing.T) {
	for _, c := range []struct {
		rate policy.Rate
		want int
	}{
		{policy.Rate{Count: 10, Per: time.Second, Burst: 1}, 2},
		{policy.Rate{Count: 10, Per: time.Second, Burst: 10}, 11},
		{policy.Rate{Count: 1, Per: time.Minute, Burst: 1}, 1},
		{policy.Rate{Count: 100, Per: time.Second, Burst: 1}, 11},
	} {
		tab := paced(policy.Limit{Rate: c.rate}, 50)
		slots := tab.bookAll(0, 100_000*ms)
		if len(slots) != c.want {
			t.Errorf("%d tasks are booked with the rate %+v, want %d", len(slots), c.rate, c.want)
		}
		now := 100_000 * ms
		for i := range slots {
			for at, err := tab.Begin(now, &slots[i]); at > now; at, err = tab.Begin(now, &slots[i]) {
				if now = at; err != nil {
					t.Fatal(err)
				}
			}
		}
		interval := int64(c.rate.Per) / int64(c.rate.Count)
		if want := 100_000*ms + int64(c.want-max(1, c.rate.Burst))*interval; now != want {
			t.Errorf("the last of %d tasks began %d ms too early", c.want, (want-now)/ms)
		}
		if tab.root.pending != 0 || tab.root.begun != c.want {
			t.Errorf("%d slots of tasks that have begun, and %d of others", tab.root.begun, tab.root.pending)
		}
	}
}

// A store that is slow, but not slower than lookAhead, costs nothing of a rate.
func TestARateIsUsedUpThoughEachGrabTakesTime(t *testing.T) {
	tab := paced(policy.Limit{Rate: policy.Rate{Count: 100, Per: time.Second, Burst: 1}}, 80)
	var slots []Slot
	var answers []int64
	begun, now := 0, int64(0)
	for ; now < 1000*ms; now += ms {
		tab.Advance(now)
		for {
			_, s, ok := tab.Book(now)
			if !ok {
				break
			}
			slots, answers = append(slots, s), append(answers, now+60*ms+int64(len(slots)%3)*10*ms)
		}
		for i := range slots {
			if s := &slots[i]; !s.begun && answers[i] <= now {
				if at, err := tab.Begin(now, s); err == nil && at <= now {
					begun++
				}
			}
		}
	}
	if begun < 80 {
		t.Errorf("%d tasks began within a second, want 80", begun)
	}
}

// A token of a rate of the cluster that is older than it may be is not begun with: the coordinator is asked for another.
func TestAnOldTokenIsReplacedBeforeATaskBegins(t *testing.T) {
	tab := paced(policy.Limit{Cluster: true, Rate: policy.Rate{Count: 10, Per: time.Second, Burst: 1}}, 5)
	draw := func(now int64) coord.Draw {
		t.Helper()
		_, draws := tab.TakeOrders(nil, nil)
		if len(draws) != 1 {
			t.Fatalf("at %d ms it makes the draws %v, want one", now/ms, draws)
		}
		return draws[0]
	}
	grant := func(now int64, d coord.Draw) { tab.Drawn(now, d.Name, coord.Drawn{Tokens: 1}) }
	if slots := tab.bookAll(0, 0); len(slots) != 0 {
		t.Fatal("a task is booked without a token")
	}
	grant(0, draw(0))
	slots := tab.bookAll(0, 0)
	if len(slots) != 1 {
		t.Fatalf("%d tasks are booked with one token", len(slots))
	}
	tab.TakeOrders(nil, nil)
	tab.Drawn(0, "api", coord.Drawn{Next: 100 * time.Millisecond})
	now := 5000 * ms
	tab.Advance(now)
	if at, err := tab.Begin(now, &slots[0]); at != Never || err != nil {
		t.Fatalf("it begins at %d, %v, with a token that is five seconds old", at, err)
	}
	grant(now, draw(now))
	if at, err := tab.Begin(now, &slots[0]); at > now || err != nil {
		t.Errorf("it begins at %d, %v, with a new token", at, err)
	}
	tab.Free(now, slots[0])
}

func TestATaskThatHasNotBegunObeysWhatWasChangedMeanwhile(t *testing.T) {
	one := 1
	for name, c := range map[string]struct {
		limit policy.Limit
		set   policy.Override
		want  [2]string // for each of two booked tasks: a part of the reason
	}{
		"paused":                     {policy.Limit{Max: 2}, policy.Override{Paused: true}, [2]string{"paused", "paused"}},
		"lowered":                    {policy.Limit{Max: 2}, policy.Override{Max: &one}, [2]string{"", "lowered"}},
		"given a maximum":            {policy.Limit{Rate: policy.Rate{Count: 100, Per: time.Second}}, policy.Override{Max: &one}, [2]string{"", "lowered"}},
		"of the cluster and lowered": {policy.Limit{Max: 2, Cluster: true}, policy.Override{Max: &one}, [2]string{"lowered", "lowered"}},
	} {
		t.Run(name, func(t *testing.T) {
			tab := paced(c.limit, 2)
			var slots []Slot
			for len(slots) < 2 {
				more := tab.bookAll(0, 0)
				if slots = append(slots, more...); len(more) == 0 && len(slots) < 2 {
					orders, _ := tab.TakeOrders(nil, nil)
					if len(orders) == 0 {
						t.Fatalf("%d tasks are booked, want 2", len(slots))
					}
					tab.Hold(0, coord.Holding{Name: "api", Number: orders[0].Number, Held: orders[0].Want, Share: 2})
				}
			}
			tab.Override(1, 1, policy.Overrides{"api": {"": c.set}}.Live())
			for i := range slots {
				at, err := tab.Begin(1, &slots[i])
				if c.want[i] == "" {
					if err != nil || at > 1 {
						t.Errorf("task %d does not begin: %v", i+1, err)
					}
				} else if err == nil || !strings.Contains(err.Error(), c.want[i]) {
					t.Errorf("task %d: %v, want that the limit was %s", i+1, err, c.want[i])
				}
			}
		})
	}
}
