//go:build !race

package table

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/task"
)

// narrow is a place at which the tasks of a fair limit wait for one slot.
type narrow struct {
	name  string
	apply func(*policy.Set)
	pool  bool // the slots of the handler of both types
	step  time.Duration
}

func narrows() []narrow {
	change := func(name string, fn func(*policy.Limit)) func(*policy.Set) {
		return func(s *policy.Set) {
			l := s.Limits[name]
			fn(&l)
			s.Limits[name] = l
		}
	}
	across := func(limit string, fn func(*policy.Limit)) func(*policy.Set) {
		return func(s *policy.Set) {
			change(limit, fn)(s)
			for name, t := range s.Types {
				s.Types[name] = withLimit(t, limit)
			}
		}
	}
	one := func(l *policy.Limit) { l.Max = 4 }
	return []narrow{
		{name: "the slots of the node", apply: func(s *policy.Set) { s.Slots = 4 }},
		{name: "a limit above", apply: change("total", one)},
		{name: "a rate above", step: time.Second, apply: change("total", func(l *policy.Limit) { l.Rate = policy.Rate{Count: 1, Per: time.Second} })},
		{name: "a limit across", apply: across("audit", one)},
		{name: "one value of a limit across", apply: across("region", one)},
		{name: "a rate across", step: time.Second, apply: across("audit", func(l *policy.Limit) { l.Rate = policy.Rate{Count: 1, Per: time.Second} })},
		{name: "the slots of a handler", pool: true},
		{name: "the concurrency of a type", apply: func(s *policy.Set) {
			t := s.Types["pay"]
			t.Concurrency = 4
			s.Types["pay"] = t
		}},
	}
}

func fairSet(shares map[string]int) policy.Set {
	return policy.Set{
		Limits: map[string]policy.Limit{
			"total":   {Name: "total"},
			"partner": {Name: "partner", Of: "total", Per: "payload.partner", Fair: true, Shares: shares},
			"audit":   {Name: "audit"},
			"region":  {Name: "region", Per: "payload.region"},
		},
		Types: map[string]policy.Type{"pay": typeOf("partner")},
	}
}

// newFairDesk returns a desk at which the tasks of the types of set wait at n.
func newFairDesk(t *testing.T, set policy.Set, n narrow) *desk {
	c := Config{Capacity: shapeCapacity, QueueCapacity: 8, Policies: set}
	if n.apply != nil {
		n.apply(&set)
	}
	if n.pool {
		c.Pools = make(map[string]string)
		for name := range set.Types {
			c.Pools[name] = "handler"
		}
	}
	if problems := set.Check(); len(problems) > 0 {
		t.Fatal(problems)
	}
	d := newDesk(t, set)
	d.tab = New(c)
	d.tab.Resize(d.now, "handler", 4)
	return d
}

// queueOf returns a queue of a type for one value of the fair limit. Limits that cut across have one value.
func (d *desk) queueOf(typ, value string) task.Queue {
	values := make([]string, len(d.tab.config.Policies.Keyed(d.tab.kinds[typ].policy)))
	values[0] = value
	return task.Queue{Type: typ, Group: task.GroupOf(values...)}
}

// next books one task, after another one has ended.
func (d *desk) next(step time.Duration) (task.Trigger, bool) {
	d.Helper()
	d.now += int64(step)
	d.tab.Advance(d.now)
	for _, a := range d.store.answers(d.tab) {
		a(d.tab, d.now)
	}
	tr, slot, ok := d.tab.Book(d.now)
	if ok {
		d.store.take(tr)
		d.held[tr.Type] = append(d.held[tr.Type], slot)
	}
	for typ, held := range d.held {
		if len(held) > 0 && (!ok || len(held) == 4) {
			d.tab.Free(d.now, held[0])
			d.held[typ] = held[1:]
		}
	}
	return tr, ok
}

func TestABacklogOfOneValueDelaysOthersByItsTurns(t *testing.T) {
	t.Parallel()
	const others = 10
	for _, n := range narrows() {
		for _, before := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, known before: %v", n.name, before), func(t *testing.T) {
				d := newFairDesk(t, fairSet(map[string]int{"large": 3}), n)
				for range largeBacklog {
					d.put(d.queueOf("pay", "large"))
				}
				add := func() {
					for range others {
						d.tab.Add(d.now, d.put(d.queueOf("pay", "small")))
					}
				}
				if before {
					add()
				}
				for range 100 {
					if tr, ok := d.next(n.step); ok && tr.Queue == d.queueOf("pay", "small") {
						break
					}
				}
				if !before {
					add()
				}
				large, small := 0, 0
				for range 10 * others {
					tr, ok := d.next(n.step)
					switch {
					case !ok:
					case tr.Queue == d.queueOf("pay", "large"):
						large++
					default:
						small++
					}
					if small < others-1 && large > 3*(small+1) {
						t.Fatalf("%d tasks of the backlog started before the next of the %d others did, after %d of them", large, others, small)
					}
				}
				if small < others-1 {
					t.Fatalf("%d of the other tasks started, and %d of the backlog", small, large)
				}
				d.tab.check(t)
			})
		}
	}
}

// TestValuesThatWaitAreServedAlike checks the bound that fair.go proves: over any time in which two
// values wait, the numbers of started tasks, divided by the shares, differ by one turn and one task of each.
func TestValuesThatWaitAreServedAlike(t *testing.T) {
	for _, n := range narrows() {
		for seed := range uint64(5) {
			t.Run(fmt.Sprintf("%s, seed %d", n.name, seed), func(t *testing.T) { serveAlike(t, n, seed) })
		}
	}
}

func serveAlike(t *testing.T, n narrow, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 3))
	shares := map[string]int{"a": 1 + rng.IntN(3), "b": 1 + rng.IntN(3), "c": 1, "d": 1}
	set := fairSet(shares)
	largest := 1
	for i := range rng.IntN(3) { // a rate counts starts, and so do the slots of a handler: they have no large tasks
		typ := typeOf("partner")
		typ.Weight = 1 + rng.IntN(2)
		set.Types[fmt.Sprint("pay", i)] = typ
		largest = max(largest, typ.Weight)
	}
	d := newFairDesk(t, set, n)
	value := func(q task.Queue) string { return task.GroupValues(q.Group, 1)[0] }
	types := make([]string, 0, len(set.Types))
	for _, k := range d.tab.order {
		types = append(types, k.name)
	}
	waiting := make(map[string]int)
	put := func(v string) {
		tr := d.put(d.queueOf(types[rng.IntN(len(types))], v))
		d.tab.Add(d.now, tr)
		waiting[v]++
	}
	served := make(map[string]int)
	lead, least, most := 0, 0, 0 // of a: its tasks divided by its share, less the tasks of b by its share, times both shares
	for range 600 {
		for _, v := range []string{"a", "b"} { // these always wait
			for waiting[v] < 6 {
				put(v)
			}
		}
		if rng.IntN(3) == 0 {
			put([]string{"c", "d"}[rng.IntN(2)])
		}
		tr, ok := d.next(n.step)
		if !ok {
			continue
		}
		v := value(tr.Queue)
		waiting[v]--
		served[v] += set.Types[tr.Type].Weight
		lead = served["a"]*shares["b"] - served["b"]*shares["a"]
		least, most = min(least, lead), max(most, lead)
	}
	bound := shares["a"] * shares["b"]
	if largest > 1 {
		bound = largest * (bound + shares["a"] + shares["b"])
	}
	if most-least > bound {
		t.Errorf("one value got %d more than the other by its share; at most %d are fair (shares %v, largest weight %d)", most-least, bound, shares, largest)
	}
	if served["a"] == 0 || served["b"] == 0 {
		t.Errorf("served %v", served)
	}
	d.tab.check(t)
}

func TestManyQueuesOfOneValueLeaveRoomForThoseOfOthers(t *testing.T) {
	d := newFairDesk(t, fairSet(nil), narrow{apply: func(s *policy.Set) {
		s.Slots = 4
		s.Types["pay"] = withLimit(s.Types["pay"], "region")
	}})
	for n := range 20 * shapeCapacity {
		d.put(task.Queue{Type: "pay", Group: task.GroupOf("large", fmt.Sprint("region ", n))})
	}
	for range 200 {
		d.next(time.Second)
	}
	for n := range 10 {
		d.tab.Add(d.now, d.put(task.Queue{Type: "pay", Group: task.GroupOf("small", fmt.Sprint("region ", n))}))
	}
	for i, small := 0, 0; small < 10; i++ {
		if i > 30 {
			t.Fatalf("%d of 10 tasks started", small)
		}
		if tr, ok := d.next(time.Second); ok && task.GroupValues(tr.Group, 2)[0] == "small" {
			small++
		}
	}
}
