//go:build !race

package table

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/task"
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
			tab := New(Config{Capacity: 100, QueueCapacity: 50, Policies: set})
			finishScan(tab)
			queue := task.Queue{Type: "call"}
			if limit.Per != "" {
				queue.Group = "a"
			}
			for seq := range uint64(7) {
				tab.Add(0, task.Trigger{Queue: queue, Rank: task.Rank{Seq: seq}})
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
			if limit.Per != "" && (len(tab.nodes) > 0 || len(tab.queues) > 0) {
				t.Errorf("%d limits and %d queues are kept for values that are not in use", len(tab.nodes), len(tab.queues))
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
	tab := New(Config{Capacity: 100, QueueCapacity: 50, Policies: set})
	finishScan(tab)
	for seq := range uint64(2) {
		tab.Add(0, task.Trigger{Queue: task.Queue{Type: "call"}, Rank: task.Rank{Seq: seq}})
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

// The starts that were not refunded keep to the rate, whatever is refunded and when.
func TestARateIsKeptWhateverIsReturned(t *testing.T) {
	for seed := range uint64(seeds) {
		rng := rand.New(rand.NewPCG(seed, 8))
		b := newBucket(policy.Rate{Count: 1, Per: time.Duration(100), Burst: 1 + rng.IntN(5)})
		now, began, open := int64(1000), []int64(nil), []int64(nil)
		for range 200 {
			switch rng.IntN(4) {
			case 0:
				now += int64(rng.IntN(400) * rng.IntN(2))
			case 1:
				if len(open) == 0 {
					continue
				}
				i := rng.IntN(len(open))
				at := open[i]
				if open = slices.Delete(open, i, i+1); rng.IntN(2) == 0 {
					b.refund(at)
				} else {
					began = append(began, at)
				}
			default:
				if b.next() <= now {
					b.take(now)
					open = append(open, now)
				}
			}
		}
		began = append(began, open...)
		slices.Sort(began)
		due := int64(0)
		for i, at := range began {
			if due-b.slack > at {
				t.Fatalf("seed %d: the start number %d of %v is %d too soon", seed, i+1, began, due-b.slack-at)
			}
			due = max(due, at) + b.interval
		}
	}
}

func TestALateReturnDoesNotExceedTheBurst(t *testing.T) {
	set := policy.Set{
		Limits: map[string]policy.Limit{"api": {Name: "api", Rate: policy.Rate{Count: 20, Per: time.Second, Burst: 1}}},
		Types:  map[string]policy.Type{"call": typeOf("api")},
	}
	tab := New(Config{Capacity: 100, QueueCapacity: 50, Policies: set})
	finishScan(tab)
	for seq := range uint64(4) {
		tab.Add(0, task.Trigger{Queue: task.Queue{Type: "call"}, Rank: task.Rank{Seq: seq}})
	}
	const second = int64(time.Second)
	_, late, _ := tab.Book(1)
	tab.Advance(5 * second)
	if _, _, ok := tab.Book(5 * second); !ok {
		t.Fatal("the rate admits nothing after five seconds")
	}
	tab.Return(5*second, late)
	if _, _, ok := tab.Book(5 * second); ok {
		t.Error("two were begun at once where the burst is one")
	}
}

func TestABurstThatIsReturnedIsThereAgain(t *testing.T) {
	b := newBucket(policy.Rate{Count: 1, Per: time.Second, Burst: 5})
	for range 5 {
		b.take(7)
	}
	for range 5 {
		b.refund(7)
	}
	for range 5 {
		if b.next() > 7 {
			t.Fatal("the burst is not there again")
		}
		b.take(7)
	}
}

func TestAValueIsForgottenOnceItsBurstIsFullAgain(t *testing.T) {
	set := policy.Set{
		Limits: map[string]policy.Limit{
			"value": {Name: "value", Of: "all", Per: "key", Rate: policy.Rate{Count: 1, Per: time.Hour, Burst: 3}},
			"all":   {Name: "all", Rate: policy.Rate{Count: 1000, Per: time.Second, Burst: 1 << 20}},
			"other": {Name: "other", Per: "key", Rate: policy.Rate{Count: 10, Per: time.Second}},
		},
		Types: map[string]policy.Type{"call": typeOf("value", "other")},
	}
	tab := New(Config{Capacity: 100, QueueCapacity: 50, Policies: set})
	finishScan(tab)
	now := int64(1)
	for i := range 1000 {
		queue := task.Queue{Type: "call", Group: task.GroupOf(fmt.Sprint(i), fmt.Sprint(i))}
		slot, ok := tab.Claim(now, queue, task.Rank{Seq: 1})
		if !ok {
			t.Fatalf("value %d has no slot", i)
		}
		now++
		tab.Free(now, slot)
	}
	if len(tab.nodes) > 0 || tab.spentByTime.Len() < 1000 {
		t.Errorf("%d limits are kept for values that nothing uses, and %d rates", len(tab.nodes), tab.spentByTime.Len())
	}
	again := task.Queue{Type: "call", Group: task.GroupOf("7", "7")}
	var slots []Slot
	for range 2 {
		slot, ok := tab.Claim(now, again, task.Rank{Seq: 1})
		if !ok {
			t.Fatal("the rest of the burst is not there")
		}
		slots = append(slots, slot)
	}
	if _, ok := tab.Claim(now, again, task.Rank{Seq: 1}); ok {
		t.Error("a rate was forgotten before it was full again")
	}
	for _, slot := range slots {
		tab.Free(now, slot)
	}
	for at, ok := tab.Wake(); ok; at, ok = tab.Wake() {
		now = max(now, at)
		tab.Advance(now)
	}
	if len(tab.nodes) > 0 || len(tab.queues) > 0 || tab.alarms.Len() > 0 || tab.spentByTime.Len() > 0 || len(tab.spentByKey) > 0 {
		t.Errorf("%d limits, %d queues and %d alarms are kept", len(tab.nodes), len(tab.queues), tab.alarms.Len())
	}
}
