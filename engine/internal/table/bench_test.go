//go:build !race

package table

import (
	"fmt"
	"testing"
	"time"

	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/task"
)

// BenchmarkAddBookFree measures the work of the table for one task. The time must not grow with the
// number of triggers in the table, or with the number of full queues beside the open one.
func BenchmarkAddBookFree(b *testing.B) {
	for _, pending := range []int{1_000, 100_000, 1_000_000} {
		b.Run(fmt.Sprintf("pending=%d", pending), func(b *testing.B) { benchmarkCycle(b, pending, 0, 0) })
	}
	for _, full := range []int{100, 10_000} {
		b.Run(fmt.Sprintf("full=%d", full), func(b *testing.B) { benchmarkCycle(b, 1_000, full, 0) })
	}
	b.Run("ageing", func(b *testing.B) { benchmarkCycle(b, 1_000, 0, time.Minute) })
}

func benchmarkCycle(b *testing.B, pending, full int, ageing time.Duration) {
	set := policy.Set{
		Slots:  1 << 20,
		Limits: map[string]policy.Limit{"total": {Name: "total", Max: 1 << 20}, "payouts": {Name: "payouts", Of: "total", Max: 1 << 20}},
		Types:  map[string]policy.Type{},
	}
	add := func(name string, concurrency int) task.Queue {
		typ := policy.DefaultType()
		typ.Limits, typ.Concurrency, typ.Ageing = []string{"payouts"}, concurrency, ageing
		set.Types[name] = typ
		return task.Queue{Type: name}
	}
	open := add("open", 1<<20)
	var queues []task.Queue
	for i := range full {
		queues = append(queues, add(fmt.Sprintf("full-%d", i), 1))
	}
	tab := New(Config{Capacity: 1 << 22, QueueCapacity: 1 << 21, Policies: set})
	finishScan(tab)
	seq := uint64(0)
	put := func(l task.Queue, priority uint8) {
		seq++
		tab.Add(0, task.Trigger{Ref: task.Ref{Version: 1}, Queue: l, Rank: task.Rank{Priority: priority, ReadyAt: int64(seq), Seq: seq}})
	}
	for _, l := range queues {
		put(l, 0)
		put(l, 0)
		tab.Book(0)
	}
	for range pending {
		put(open, 5)
	}
	b.ReportAllocs()
	for b.Loop() {
		put(open, 5)
		_, slot, ok := tab.Book(0)
		if !ok {
			b.Fatal("nothing to book")
		}
		tab.Free(0, slot)
	}
}

// BenchmarkAddBehind measures a trigger that is left to the store, because it ranks behind the window
// of its queue.
func BenchmarkAddBehind(b *testing.B) {
	set := policy.Set{Slots: 1, Types: map[string]policy.Type{"mail": policy.DefaultType()}}
	tab := New(Config{Capacity: 1000, QueueCapacity: 100, Policies: set})
	finishScan(tab)
	seq := uint64(0)
	add := func() bool {
		seq++
		return tab.Add(0, task.Trigger{Ref: task.Ref{Version: 1}, Queue: task.Queue{Type: "mail"}, Rank: task.Rank{ReadyAt: int64(seq), Seq: seq}})
	}
	for add() {
	}
	b.ReportAllocs()
	for b.Loop() {
		if add() {
			b.Fatal("the window has room")
		}
	}
}

// BenchmarkClaim measures a task that starts at once.
func BenchmarkClaim(b *testing.B) {
	set := policy.Set{Slots: 100, Types: map[string]policy.Type{"mail": policy.DefaultType()}}
	tab := New(Config{Capacity: 1000, QueueCapacity: 100, Policies: set})
	finishScan(tab)
	b.ReportAllocs()
	for b.Loop() {
		slot, ok := tab.Claim(0, task.Queue{Type: "mail"}, task.Rank{Seq: 1})
		if !ok {
			b.Fatal("no slot")
		}
		tab.Free(0, slot)
	}
}

// BenchmarkLevels measures the work of the table for one task under three limits, of a node or
// of the cluster. The cycle includes the orders of permits.
func BenchmarkLevels(b *testing.B) {
	for _, of := range []string{"node", "cluster", "cluster, scarce"} {
		b.Run("of="+of, func(b *testing.B) {
			isCluster := of != "node"
			typ := policy.DefaultType()
			typ.Limits = []string{"partner"}
			set := policy.Set{
				Limits: map[string]policy.Limit{
					"total":   {Name: "total", Max: 1000, Cluster: isCluster},
					"payouts": {Name: "payouts", Of: "total", Max: 900, Cluster: isCluster},
					"partner": {Name: "partner", Of: "payouts", Max: 60, Per: "payload.partner", Cluster: isCluster},
				},
				Types: map[string]policy.Type{"mail": typ},
			}
			tab := New(Config{Capacity: 1 << 20, QueueCapacity: 1 << 19, Policies: set, Permits: isCluster})
			finishScan(tab)
			seq, now := uint64(0), int64(1e18)
			var orders []coord.Order
			grant := func() {
				for len(orders) > 0 {
					all := orders
					orders = nil
					for _, o := range all {
						h := coord.Holding{Name: o.Name, Number: o.Number, Held: o.Want, Share: 1}
						if of == "cluster, scarce" { // others wait, and have less than their share
							h.Held, h.Waiting, h.Needed = min(o.Want, max(o.Least, 1)), 5, 5
						}
						tab.Hold(now, h)
					}
					orders, _ = tab.TakeOrders(orders, nil)
				}
			}
			put := func() {
				seq++
				q := task.Queue{Type: "mail", Group: task.GroupOf(fmt.Sprint(seq % 50))}
				tab.Add(now, task.Trigger{Ref: task.Ref{Version: 1}, Queue: q, Rank: task.Rank{ReadyAt: int64(seq), Seq: seq}})
			}
			var slots []Slot
			for range 10_000 {
				put()
			}
			cycle := func() {
				now += 2000
				put()
				orders, _ = tab.TakeOrders(orders[:0], nil)
				grant()
				for len(slots) < 200 {
					_, slot, ok := tab.Book(now)
					if !ok {
						break
					}
					slots = append(slots, slot)
				}
				if len(slots) > 0 {
					tab.Free(now, slots[0])
					slots = slots[1:]
				}
			}
			for range 20_000 {
				cycle()
			}
			b.ReportAllocs()
			for b.Loop() {
				cycle()
			}
		})
	}
}

// BenchmarkValues measures the work of the table for one task of a keyed limit, with many values that wait for
// a slot: in the order of their tasks, and in turns.
func BenchmarkValues(b *testing.B) {
	for _, waitFor := range []string{"limit", "handler"} {
		for _, values := range []int{100, 10_000} {
			for _, isFair := range []bool{false, true} {
				b.Run(fmt.Sprintf("for=%s/values=%d/fair=%v", waitFor, values, isFair), func(b *testing.B) {
					benchmarkValues(b, waitFor, values, isFair)
				})
			}
		}
	}
}

func benchmarkValues(b *testing.B, waitFor string, values int, isFair bool) {
	typ := policy.DefaultType()
	typ.Limits = []string{"partner"}
	set := policy.Set{
		Limits: map[string]policy.Limit{
			"total":   {Name: "total", Max: 100},
			"partner": {Name: "partner", Of: "total", Max: 60, Per: "payload.partner", Fair: isFair},
		},
		Types: map[string]policy.Type{"mail": typ},
	}
	c := Config{Capacity: 1 << 20, QueueCapacity: 1 << 19, Policies: set}
	if waitFor == "handler" {
		set.Limits["total"] = policy.Limit{Name: "total"}
		c.Pools = map[string]string{"mail": "handler"}
	}
	tab := New(c)
	tab.Resize(0, "handler", 100)
	finishScan(tab)
	seq := uint64(0)
	put := func() {
		seq++
		q := task.Queue{Type: "mail", Group: task.GroupOf(fmt.Sprint(seq * 7 % uint64(values)))}
		tab.Add(0, task.Trigger{Ref: task.Ref{Version: 1}, Queue: q, Rank: task.Rank{ReadyAt: int64(seq), Seq: seq}})
	}
	for range 2*values + 1000 {
		put()
	}
	var slots fifo[Slot]
	cycle := func() {
		put()
		for {
			_, slot, ok := tab.Book(0)
			if !ok {
				break
			}
			slots.push(slot)
		}
		s, _ := slots.pop()
		tab.Free(0, s)
	}
	for range 1000 {
		cycle()
	}
	b.ReportAllocs()
	for b.Loop() {
		cycle()
	}
}
