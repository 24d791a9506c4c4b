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

// shape is a backlog that must not delay tasks of other types.
type shape struct {
	name string
	bulk policy.Type
	rate policy.Rate // of each value
	rows func(n int) task.Queue
	with func(tab *Table) // adds the rest of the shape
}

const shapeCapacity = 64

func shapes() []shape {
	values := func(n int) task.Queue { return task.Queue{Type: "bulk", Group: fmt.Sprintf("v%06d", n)} }
	few := func(n int) task.Queue { return values(n % 3) }
	open := typeOf("value")
	narrow := typeOf("value")
	narrow.Concurrency = 2
	return []shape{
		{name: "many values", bulk: open, rows: values},
		{name: "few values", bulk: open, rows: few},
		{name: "many values, paused", bulk: open, rows: values, with: func(tab *Table) { tab.Open(0, "bulk", false) }},
		{name: "few values, paused", bulk: open, rows: few, with: func(tab *Table) { tab.Open(0, "bulk", false) }},
		{name: "many values of a type that is full", bulk: narrow, rows: values},
		{name: "many values that are used up", bulk: open, rate: policy.Rate{Count: 1, Per: 24 * time.Hour}, rows: func(n int) task.Queue { return values(n / 2) }},
		{name: "many types that are not configured", bulk: open, rows: func(n int) task.Queue { return task.Queue{Type: fmt.Sprintf("bulk%06d", n)} }},
	}
}

func (s shape) policies() policy.Set {
	return policy.Set{
		Slots: 8,
		Limits: map[string]policy.Limit{
			"value":   {Name: "value", Per: "key", Max: 1, Rate: s.rate},
			"partner": {Name: "partner", Per: "key", Max: 1},
			"bulks":   {Name: "bulks", Max: 4},
		},
		Types: map[string]policy.Type{"bulk": withLimit(s.bulk, "bulks"), "mail": policy.DefaultType(), "payout": typeOf("partner")},
	}
}

func withLimit(t policy.Type, name string) policy.Type {
	t.Limits = append(slices.Clone(t.Limits), name)
	return t
}

// desk is a table with its store and the slots that are booked.
type desk struct {
	*testing.T
	tab   *Table
	store shelf
	seq   uint64
	now   int64
	held  map[string][]Slot
}

func newDesk(t *testing.T, set policy.Set) *desk {
	return &desk{T: t, store: shelf{}, now: 1, tab: New(Config{Capacity: shapeCapacity, QueueCapacity: 8, Policies: set}), held: map[string][]Slot{}}
}

func (d *desk) put(l task.Queue) task.Trigger {
	d.seq++
	tr := task.Trigger{
		Ref:   task.Ref{ID: task.ID{byte(d.seq), byte(d.seq >> 8), byte(d.seq >> 16)}, Version: 1},
		Queue: l, Rank: task.Rank{Priority: 5, ReadyAt: d.now, Seq: d.seq},
	}
	d.store.put(tr)
	return tr
}

// round answers the reads of the table, books all tasks that may run, and checks the bounds. It
// returns the booked tasks.
func (d *desk) round() (booked []task.Trigger) {
	d.Helper()
	for _, a := range d.store.answers(d.tab) {
		a(d.tab, d.now)
	}
	for {
		tr, slot, ok := d.tab.Book(d.now)
		if !ok {
			break
		}
		if d.store.take(tr) {
			booked = append(booked, tr)
			d.held[tr.Type] = append(d.held[tr.Type], slot)
		} else {
			d.tab.Return(d.now, slot)
		}
	}
	running := 0
	for _, slots := range d.held {
		running += len(slots)
	}
	if most := shapeCapacity + running + d.tab.probes() + maxLoads; d.tab.Len() > most || len(d.tab.queues) > most+len(d.tab.order) || len(d.tab.kinds) > 3 {
		d.Fatalf("the table holds %d triggers, %d queues, %d types", d.tab.Len(), len(d.tab.queues), len(d.tab.kinds))
	}
	return booked
}

func (d *desk) free(typ string) {
	for _, s := range d.held[typ] {
		d.tab.Free(d.now, s)
	}
	d.held[typ] = nil
}

// rounds is the maximum number of rounds that a task may wait for tasks of another type.
const rounds = 4

// expect fails if the given tasks are not booked within rounds.
func (d *desk) expect(trs ...task.Trigger) {
	d.Helper()
	left := slices.Clone(trs)
	for i := 0; len(left) > 0; i++ {
		if i == rounds {
			d.Fatalf("after %d answers %d of %d tasks of %s wait: %+v", i, len(left), len(trs), left[0].Type, d.tab.Explain(d.now, left[0].Queue, left[0].Rank))
		}
		for _, tr := range d.round() {
			left = slices.DeleteFunc(left, func(o task.Trigger) bool { return o == tr })
		}
		d.free("mail")
		d.free("payout")
	}
}

func TestABacklogOfWhateverShapeDelaysNoOtherType(t *testing.T) {
	t.Parallel()
	for _, s := range shapes() {
		for _, before := range []bool{true, false} {
			name := s.name + ", there before the table"
			if !before {
				name = s.name + ", added to the table"
			}
			t.Run(name, func(t *testing.T) { driveShape(t, s, before) })
		}
	}
}

func driveShape(t *testing.T, s shape, before bool) {
	const size = 20 * shapeCapacity
	d := newDesk(t, s.policies())
	if s.with != nil {
		s.with(d.tab)
	}
	if before {
		for n := range size {
			d.put(s.rows(n))
		}
		d.expect(d.put(task.Queue{Type: "mail"}), d.put(task.Queue{Type: "payout", Group: "zebra"}))
	} else {
		for d.round() != nil || !d.tab.Surveyed() {
		}
		for n := range size {
			d.tab.Add(d.now, d.put(s.rows(n)))
			if n%16 == 0 {
				d.round()
			}
		}
	}
	for n := range 50 {
		mail, payout := d.put(task.Queue{Type: "mail"}), d.put(task.Queue{Type: "payout", Group: fmt.Sprint("partner ", n)})
		d.tab.Add(d.now, mail)
		d.tab.Add(d.now, payout)
		d.expect(mail, payout)
	}
	var many []task.Trigger // a backlog of the other's own does not go through the eye of a needle
	for range 40 {
		many = append(many, d.put(task.Queue{Type: "mail"}))
		d.tab.Add(d.now, many[len(many)-1])
	}
	for i := 0; len(many) > 0; i++ {
		if i > 12 {
			t.Fatalf("after %d answers %d tasks wait", i, len(many))
		}
		for _, tr := range d.round() {
			many = slices.DeleteFunc(many, func(o task.Trigger) bool { return o == tr })
		}
		d.free("mail")
	}
	d.finish()
}

// finish opens all types, and runs all tasks of types that are configured.
func (d *desk) finish() {
	d.Helper()
	d.tab.Open(d.now, "bulk", true)
	for i := 0; ; i++ {
		left := 0
		for l, trs := range d.store {
			if d.tab.kinds[l.Type] != nil {
				left += len(trs)
			}
		}
		if left == 0 {
			return
		}
		if i > 100_000 {
			d.Fatalf("%d tasks are never booked: %+v", left, d.tab.reads)
		}
		if len(d.round()) > 0 {
			for typ := range d.held {
				d.free(typ)
			}
			continue
		}
		for typ := range d.held {
			d.free(typ)
		}
		if at, ok := d.tab.Wake(); ok {
			d.now = max(d.now, at)
			d.tab.Advance(d.now)
		}
	}
}

// Queues come and go, types are closed and opened, tasks are cancelled, and the table is far too
// small: in the end all tasks of open types that are ready are booked.
func TestATableThatIsTooSmallForgetsNothing(t *testing.T) {
	t.Parallel()
	for seed := range uint64(seeds) {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) { driveSmall(t, seed) })
	}
}

func driveSmall(t *testing.T, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 6))
	set := testPolicies(rng)
	set.Slots = 2 + rng.IntN(5)
	if l := set.Limits["tenant"]; rng.IntN(2) == 0 {
		l.Rate = policy.Rate{Count: 1, Per: time.Second}
		set.Limits["tenant"] = l
	}
	names := []string{"free", "single", "heavy", "payout", "refund", "report", "bulk", "check", "visit"}
	tab := New(Config{Capacity: 1 + rng.IntN(24), QueueCapacity: 2 + rng.IntN(4), Policies: set})
	store, closed, now, seq := shelf{}, map[string]bool{}, int64(1), uint64(0)
	var slots []Slot
	var pending []answer
	values := 2 + rng.IntN(60)
	step := func(more bool) {
		switch op := rng.IntN(12); {
		case op < 3 && more:
			seq++
			name := names[rng.IntN(len(names))]
			group := make([]string, len(set.Keyed(set.Types[name])))
			for i := range group {
				group[i] = fmt.Sprint(rng.IntN(values))
			}
			tr := task.Trigger{
				Ref:   task.Ref{ID: task.ID{byte(seq), byte(seq >> 8)}, Version: 1},
				Queue: task.Queue{Type: name, Group: task.GroupOf(group...)},
				Rank:  task.Rank{Priority: uint8(rng.IntN(3)), ReadyAt: int64(1 + rng.IntN(50)), Seq: seq},
			}
			if slot, ok := store.submit(tab, now, tr); ok {
				slots = append(slots, slot)
			}
		case op < 5:
			if tr, slot, ok := tab.Book(now); ok && store.take(tr) {
				slots = append(slots, slot)
			} else if ok {
				tab.Return(now, slot)
			}
		case op < 7 && len(slots) > 0:
			i := rng.IntN(len(slots))
			tab.Free(now, slots[i])
			slots = slices.Delete(slots, i, i+1)
		case op == 7 && more:
			name := names[rng.IntN(len(names))]
			closed[name] = !closed[name]
			tab.Open(now, name, !closed[name])
		case op == 8 && more: // one is cancelled
			for _, l := range slices.SortedFunc(mapsKeys(store), compareQueues)[:min(1, len(store))] {
				tr := store[l][rng.IntN(len(store[l]))]
				store.take(tr)
				tr.Version++
				tab.Drop(now, tr)
			}
		case op == 9:
			if at, ok := tab.Wake(); ok {
				now = max(now, at)
				tab.Advance(now)
			}
		default:
			pending = append(pending, store.answers(tab)...)
			if len(pending) > 0 {
				i := rng.IntN(len(pending))
				pending[i](tab, now)
				pending = slices.Delete(pending, i, i+1)
			}
		}
		if most := tab.config.Capacity + len(slots) + len(tab.order) + maxLoads + tab.probes(); tab.Len() > most || tab.idle > most {
			t.Fatalf("%d triggers and %d queues in a table for %d", tab.Len(), tab.idle, tab.config.Capacity)
		}
		tab.check(t)
	}
	for range 1500 {
		step(true)
	}
	for name := range closed {
		tab.Open(now, name, true)
	}
	for i := 0; len(store) > 0; i++ {
		if i > 100_000 {
			t.Fatalf("%d of %d queues are never booked: %+v", len(store), seq, tab.reads)
		}
		step(false)
	}
}

func mapsKeys[K comparable, V any](m map[K]V) func(func(K) bool) {
	return func(yield func(K) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}
