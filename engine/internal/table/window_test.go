//go:build !race

package table

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/task"
)

// shelf is a store as a table reads it: the ready rows of each queue.
type shelf map[task.Queue][]task.Trigger

func (s shelf) put(tr task.Trigger) {
	ts := s[tr.Queue]
	at, _ := slices.BinarySearchFunc(ts, tr.Rank, func(t task.Trigger, r task.Rank) int { return t.Rank.Compare(r) })
	s[tr.Queue] = slices.Insert(ts, at, tr)
}

// submit claims a slot for a task, as an engine does, and adds the task if it gets none.
func (s shelf) submit(tab *Table, now int64, tr task.Trigger) (Slot, bool) {
	slot, ok := tab.Claim(now, tr.Queue, tr.Rank)
	if !ok {
		s.put(tr)
		tab.Add(now, tr)
	}
	return slot, ok
}

// take removes a row, as a grab does. It returns false if the row was grabbed before.
func (s shelf) take(tr task.Trigger) bool {
	ts := s[tr.Queue]
	at := slices.Index(ts, tr)
	if at < 0 {
		return false
	}
	if at == 0 {
		s[tr.Queue] = ts[1:]
	} else {
		s[tr.Queue] = slices.Delete(ts, at, at+1)
	}
	if len(ts) == 1 {
		delete(s, tr.Queue)
	}
	return true
}

// ready returns rows of a queue as a store does.
func (s shelf) ready(queue task.Queue, after *task.Rank, limit int) []task.Trigger {
	rows := s[queue]
	if after != nil {
		at, found := slices.BinarySearchFunc(rows, *after, func(t task.Trigger, r task.Rank) int { return t.Rank.Compare(r) })
		if found {
			at++
		}
		rows = rows[at:]
	}
	return slices.Clone(rows[:min(limit, len(rows))])
}

func (s shelf) scan(sc Scan) (queues []task.Queue, end bool) {
	for l := range s {
		if compareQueues(l, sc.After) > 0 {
			queues = append(queues, l)
		}
	}
	slices.SortFunc(queues, compareQueues)
	if len(queues) > sc.Limit {
		return queues[:sc.Limit], false
	}
	return queues, true
}

func compareQueues(a, b task.Queue) int {
	return slices.Compare([]string{a.Type, a.Group}, []string{b.Type, b.Group})
}

// answer gives the table a page that was read from the store before.
type answer func(*Table, int64)

func (s shelf) answers(tab *Table) []answer { return s.answersWhile(tab, func() {}) }

// answersWhile calls after after each read of a Load.
func (s shelf) answersWhile(tab *Table, after func()) []answer {
	var all []answer
	for _, l := range tab.TakeLoads(nil) {
		page, end, _ := l.Read(func(from *task.Rank, limit int) ([]task.Trigger, error) {
			defer after()
			return s.ready(l.Queue, from, limit), nil
		})
		all = append(all, func(t *Table, now int64) { t.Loaded(now, l.Queue, page, end) })
	}
	if sc, ok := tab.TakeScan(); ok {
		queues, end := s.scan(sc)
		all = append(all, func(t *Table, _ int64) { t.Scanned(queues, end) })
	}
	return all
}

// answerAll answers the reads of the table until it asks for none.
func (s shelf) answerAll(tab *Table, now int64) {
	for {
		all := s.answers(tab)
		if len(all) == 0 {
			return
		}
		for _, a := range all {
			a(tab, now)
		}
	}
}

func TestWindowLosesNothingAndStaysBounded(t *testing.T) {
	t.Parallel()
	for seed := range uint64(seeds) {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) { driveWindow(t, seed, testPolicies) })
	}
}

func TestWindowLosesNothingOfTasksThatAge(t *testing.T) {
	t.Parallel()
	for seed := range uint64(seeds / 4) {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			driveWindow(t, seed, func(rng *rand.Rand) policy.Set { return age(rng, testPolicies(rng)) })
		})
	}
}

func driveWindow(t *testing.T, seed uint64, policies func(*rand.Rand) policy.Set) {
	rng := rand.New(rand.NewPCG(seed, 2))
	set := policies(rng)
	set.Slots = 4
	tab := New(Config{Capacity: 8 + rng.IntN(40), QueueCapacity: 2 + rng.IntN(8), Policies: set})
	store := shelf{}
	seq := uint64(0)
	var slots []Slot
	var pending []answer
	grabbed, now := 0, int64(0)
	next := func() task.Trigger {
		seq++
		return task.Trigger{
			Ref:   task.Ref{ID: task.ID{byte(seq), byte(seq >> 8)}, Version: 1},
			Queue: randomQueue(rng, set),
			Rank:  task.Rank{Priority: uint8(rng.IntN(3)), ReadyAt: 1000 * int64(1+rng.IntN(50)), Seq: seq},
		}
	}
	for range rng.IntN(300) {
		store.put(next()) // there before the table was
	}
	step := func(submit bool) {
		if at, ok := tab.Wake(); ok && rng.IntN(4) == 0 {
			now = max(now, at)
			tab.Advance(now)
		}
		switch op := rng.IntN(8); {
		case op < 2 && submit:
			if slot, ok := store.submit(tab, now, next()); ok {
				slots = append(slots, slot)
				grabbed++
			}
		case op < 4:
			if tr, slot, ok := tab.Book(now); !ok {
			} else if store.take(tr) {
				slots = append(slots, slot)
				grabbed++
			} else {
				tab.Return(now, slot)
			}
		case op < 6 && len(slots) > 0:
			tab.Free(now, slots[0])
			slots = slots[1:]
		default: // answers come late and in any order
			answers := store.answersWhile(tab, func() { // rows change between the reads of a Load
				if submit && rng.IntN(2) == 0 {
					tr := next()
					store.put(tr)
					if rng.IntN(2) == 0 {
						tab.Add(now, tr)
					} else { // its notice comes late
						pending = append(pending, func(tab *Table, now int64) { tab.Add(now, tr) })
					}
				}
			})
			pending = append(pending, answers...)
			if len(pending) > 0 {
				i := rng.IntN(len(pending))
				pending[i](tab, now)
				pending = slices.Delete(pending, i, i+1)
			}
		}
		if most := tab.config.Capacity + len(slots) + len(tab.order) + maxLoads; tab.Len() > most || tab.idle > most+tab.probes() {
			t.Fatalf("%d triggers and %d queues in a table for %d", tab.Len(), tab.idle, tab.config.Capacity)
		}
		tab.check(t)
	}
	for range 1000 {
		step(true)
	}
	for i := 0; len(store) > 0; i++ {
		if i > 20000 {
			t.Fatalf("%d of %d rows were grabbed, then nothing more: %+v", grabbed, seq, tab.reads)
		}
		step(false)
	}
}

func TestWindowKeepsTheOrderOfItsQueue(t *testing.T) {
	set := policy.Set{Slots: 1, Types: map[string]policy.Type{"mail": policy.DefaultType()}}
	tab := New(Config{Capacity: 100, QueueCapacity: 8, Policies: set})
	finishScan(tab)
	store := shelf{}
	mail := task.Queue{Type: "mail"}
	for seq := range uint64(1000) {
		tr := task.Trigger{Ref: task.Ref{Version: 1}, Queue: mail, Rank: task.Rank{ReadyAt: 1, Seq: seq + 1}}
		store.put(tr)
		tab.Add(0, tr)
	}
	for want := range uint64(1000) {
		for _, a := range store.answers(tab) {
			a(tab, 0)
		}
		tr, slot, ok := tab.Book(0)
		if !ok || tr.Seq != want+1 {
			t.Fatalf("booked %+v %v, want the row inserted as number %d", tr, ok, want+1)
		}
		store.take(tr)
		tab.Free(0, slot)
	}
}

func TestAClaimHidesNothingOfATypeThatIsNotListed(t *testing.T) {
	single := policy.DefaultType()
	single.Limits = []string{"one"}
	tab := New(Config{Capacity: 100, QueueCapacity: 8, Policies: policy.Set{
		Limits: map[string]policy.Limit{"one": {Name: "one", Max: 1}},
		Types:  map[string]policy.Type{"first": single, "second": single},
	}})
	finishScan(tab)
	store, second := shelf{}, task.Queue{Type: "second"}
	tab.Open(0, "second", false)
	old := task.Trigger{Queue: second, Rank: task.Rank{ReadyAt: 1, Seq: 1}}
	store.put(old)
	tab.Add(0, old)
	held, ok := tab.Claim(0, task.Queue{Type: "first"}, task.Rank{ReadyAt: 1, Seq: 2})
	if !ok {
		t.Fatal("nothing could be claimed though nothing else may run")
	}

	tab.Open(0, "second", true) // not listed yet, and the limit of all its tasks is full
	if _, ok := store.submit(tab, 0, task.Trigger{Queue: second, Rank: task.Rank{ReadyAt: 1, Seq: 3}}); ok {
		t.Fatal("claimed a slot of a limit that is full")
	}
	store.answerAll(tab, 0)
	tab.Free(0, held)
	if tr, _, ok := tab.Book(0); !ok || tr != old {
		t.Errorf("booked %+v %v, want the task that was there first", tr, ok)
	}
}

func TestClaimOvertakesNoTask(t *testing.T) {
	mail, sms := task.Queue{Type: "mail"}, task.Queue{Type: "sms"}
	heavy := policy.DefaultType()
	heavy.Weight = 2
	set := policy.Set{Slots: 3, Types: map[string]policy.Type{"mail": policy.DefaultType(), "sms": policy.DefaultType(), "heavy": heavy}}
	rank := func(seq uint64) task.Rank { return task.Rank{Priority: 5, ReadyAt: 1, Seq: seq} }

	t.Run("while the store has not been scanned", func(t *testing.T) {
		tab := New(Config{Capacity: 100, QueueCapacity: 8, Policies: set})
		if _, ok := tab.Claim(0, mail, rank(1)); ok {
			t.Error("claimed a slot though the store may hold older tasks")
		}
	})
	t.Run("that waits for more room than there is", func(t *testing.T) {
		tab := New(Config{Capacity: 100, QueueCapacity: 8, Policies: set})
		finishScan(tab)
		for range 2 {
			if _, ok := tab.Claim(0, mail, rank(1)); !ok {
				t.Fatal("found no slot in an empty table")
			}
		}
		tab.Add(0, task.Trigger{Queue: task.Queue{Type: "heavy"}, Rank: rank(2)})
		if _, ok := tab.Claim(0, sms, rank(3)); ok {
			t.Error("passed a heavy task that came first")
		}
		if _, ok := tab.Claim(0, sms, task.Rank{Priority: 4, Seq: 4}); !ok {
			t.Error("did not pass though its priority is better")
		}
	})
	t.Run("of its own queue", func(t *testing.T) {
		tab := New(Config{Capacity: 100, QueueCapacity: 8, Policies: set})
		finishScan(tab)
		tab.Add(0, task.Trigger{Queue: mail, Rank: rank(1)})
		if _, ok := tab.Claim(0, mail, rank(2)); ok {
			t.Error("passed an older task of its type")
		}
	})
	t.Run("of a type that is not configured", func(t *testing.T) {
		tab := New(Config{Capacity: 100, QueueCapacity: 8, Policies: set})
		finishScan(tab)
		if _, ok := tab.Claim(0, task.Queue{Type: "unknown"}, rank(1)); ok {
			t.Error("claimed a slot for a type that is not known")
		}
	})
}
