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

func typeOf(limits ...string) policy.Type {
	t := policy.DefaultType()
	t.Limits = limits
	return t
}

// tryAdd adds the n-th task of a type.
func tryAdd(tab *Table, typ string, n uint64) {
	tab.Add(0, task.Trigger{
		Ref:   task.Ref{ID: task.ID{byte(n)}, Version: 1},
		Queue: task.Queue{Type: typ},
		Rank:  task.Rank{ReadyAt: int64(n), Seq: n},
	})
}

func TestALimitHoldsThatIsTheTreeForOneTypeAndCutsAcrossAnother(t *testing.T) {
	for name, order := range map[string][2]string{"the tree first": {"below", "across"}, "across first": {"across", "below"}} {
		t.Run(name, func(t *testing.T) {
			tab := New(Config{Capacity: 100, QueueCapacity: 100, Policies: policy.Set{
				Limits: map[string]policy.Limit{"shared": {Name: "shared", Max: 1}, "own": {Name: "own", Max: 5}},
				Types:  map[string]policy.Type{"below": typeOf("shared"), "across": typeOf("own", "shared")},
			}})
			finishScan(tab)
			tryAdd(tab, order[0], 1)
			tryAdd(tab, order[1], 2)
			_, slot, ok := tab.Book(0)
			if !ok {
				t.Fatal("nothing is booked under a free limit")
			}
			if tr, _, ok := tab.Book(0); ok {
				t.Fatalf("%s is booked over the limit", tr.Queue.Type)
			}
			tab.Free(0, slot)
			if tr, _, ok := tab.Book(0); !ok || tr.Queue.Type != order[1] {
				t.Errorf("booked %q %v after the slot was freed, want %q", tr.Queue.Type, ok, order[1])
			}
			tab.check(t)
		})
	}
}

func TestExplainingATaskHidesNothingFromTheScan(t *testing.T) {
	tab := New(Config{Capacity: 100, QueueCapacity: 100, Policies: policy.Set{
		Types: map[string]policy.Type{"plain": policy.DefaultType()},
	}})
	tab.TakeScan()
	queue := task.Queue{Type: "plain"}
	tab.Explain(0, queue, task.Rank{ReadyAt: 1, Seq: 1})
	tab.Scanned([]task.Queue{queue}, true)
	if loads := tab.TakeLoads(nil); len(loads) != 1 || loads[0].Queue != queue {
		t.Errorf("the scan has found %v and is to load %v", queue, loads)
	}
}

// mixedPolicies returns limits and rates that are in the tree for some types and cut across it for
// others, and types with a weight.
func mixedPolicies(rng *rand.Rand) policy.Set {
	set := policy.Set{Slots: 3 + rng.IntN(4), Limits: map[string]policy.Limit{}, Types: map[string]policy.Type{}}
	names := []string{"a", "b", "c", "d"}
	for i, name := range names {
		l := policy.Limit{Name: name}
		if rng.IntN(3) > 0 {
			l.Max = 2 + rng.IntN(3)
		}
		if rng.IntN(3) == 0 {
			l.Rate = policy.Rate{Count: 1 + rng.IntN(3), Per: time.Second, Burst: rng.IntN(3)}
		}
		if rng.IntN(3) == 0 {
			l.Per = "payload.p"
		}
		if i > 0 && rng.IntN(2) == 0 {
			l.Of = names[rng.IntN(i)]
		}
		set.Limits[name] = l
	}
	for i := range 8 {
		typ := policy.DefaultType()
		typ.Weight, typ.Concurrency = 1+rng.IntN(2), rng.IntN(2)*(2+rng.IntN(2))
		for _, name := range names {
			typ.Limits = append(typ.Limits, name)
			rng.Shuffle(len(typ.Limits), func(i, j int) { typ.Limits[i], typ.Limits[j] = typ.Limits[j], typ.Limits[i] })
		}
		for len(typ.Limits) > 0 {
			set.Types[fmt.Sprint("t", i)] = typ
			if rng.IntN(2) == 0 && len(set.Check()) == 0 {
				break
			}
			typ.Limits = typ.Limits[1:]
		}
		set.Types[fmt.Sprint("t", i)] = typ
	}
	return set
}

func TestNothingGetsStuckUnderLimitsAndRatesOfAllKinds(t *testing.T) {
	t.Parallel()
	for seed := range uint64(min(300, 6*seeds)) {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) { driveMixed(t, seed) })
	}
}

// checkIdle fails if Book did not book the first of all triggers of open types, although every limit
// of it has room.
func (t *Table) checkIdle(tb testing.TB, now int64) {
	tb.Helper()
	var first *queue
	for _, q := range t.queues {
		if q.any && !q.kind.closed && (first == nil || q.head.rank.Compare(first.head.rank) < 0) {
			first = q
		}
	}
	if first == nil {
		return
	}
	for n := &first.node; n != nil; n = n.parent {
		if !t.room(now, n, first.kind.policy.Weight) {
			return
		}
	}
	for _, n := range first.across {
		if !t.room(now, n, first.kind.policy.Weight) {
			return
		}
	}
	on := "nothing"
	if first.parkedOn != nil {
		on = fmt.Sprintf("%s with %d others", first.parkedOn.name, first.parkedOn.parked.Len()-1)
	}
	tb.Fatalf("the best trigger, of %v, is left though every limit has room; it is parked on %s", first.name, on)
}

func driveMixed(t *testing.T, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 4))
	set := mixedPolicies(rng)
	if problems := set.Check(); len(problems) > 0 {
		t.Fatal(problems)
	}
	tab := New(Config{Capacity: 1 << 20, QueueCapacity: 1 << 20, Policies: set})
	finishScan(tab)
	store := shelf{}
	now, seq, closed := int64(1), uint64(0), map[string]bool{}
	var slots []Slot
	booked := 0
	book := func() {
		store.answerAll(tab, now)
		for {
			tr, slot, ok := tab.Book(now)
			if !ok {
				tab.checkIdle(t, now)
				return
			}
			if !store.take(tr) {
				t.Fatalf("booked %+v, which is not ready", tr)
			}
			booked++
			slots = append(slots, slot)
			tab.check(t)
		}
	}
	free := func() {
		i := rng.IntN(len(slots))
		s := slots[i]
		if slots = slices.Delete(slots, i, i+1); rng.IntN(4) == 0 {
			booked-- // the grab came too late: another takes its place in the rates
			seq++
			tab.Return(now, s)
			tr := task.Trigger{Ref: task.Ref{Version: 1}, Queue: s.queue.name, Rank: task.Rank{ReadyAt: 1, Seq: seq}}
			store.put(tr)
			tab.Add(now, tr)
			return
		}
		tab.Free(now, s)
	}
	added := 0
	for range 300 {
		switch op := rng.IntN(10); {
		case op < 5:
			typ := fmt.Sprint("t", rng.IntN(len(set.Types)))
			values := make([]string, len(set.Keyed(set.Types[typ])))
			for i := range values {
				values[i] = string(rune('a' + rng.IntN(2)))
			}
			seq++
			added++
			tr := task.Trigger{
				Ref: task.Ref{Version: 1}, Queue: task.Queue{Type: typ, Group: task.GroupOf(values...)},
				Rank: task.Rank{Priority: uint8(rng.IntN(3)), ReadyAt: 1, Seq: seq},
			}
			if slot, ok := store.submit(tab, now, tr); ok {
				booked++
				slots = append(slots, slot)
			}
		case op < 7 && len(slots) > 0:
			free()
		case op < 8:
			now += int64(rng.IntN(int(time.Second)))
			tab.Advance(now)
		case op < 9:
			typ := fmt.Sprint("t", rng.IntN(len(set.Types)))
			closed[typ] = !closed[typ]
			tab.Open(now, typ, !closed[typ])
		}
		book()
	}
	for typ := range closed {
		tab.Open(now, typ, true)
	}
	for book(); tab.Len() > 0; book() {
		wake, waits := tab.Wake()
		switch {
		case len(slots) > 0 && (!waits || rng.IntN(2) == 0):
			free()
		case waits:
			now = max(now, wake)
			tab.Advance(now)
		default:
			t.Fatalf("%d triggers are stuck: no slot is taken and no rate is waited for", tab.Len())
		}
	}
	if booked != added {
		t.Errorf("%d were booked of %d added", booked, added)
	}
}

func TestAHugeBurstIsNotNone(t *testing.T) {
	b := newBucket(policy.Rate{Count: 1, Per: 24 * time.Hour, Burst: 1_000_000})
	now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC).UnixNano()
	for range 1000 {
		if b.next() > now {
			t.Fatalf("closed until %v", time.Unix(0, b.next()))
		}
		b.take(now)
	}
}
