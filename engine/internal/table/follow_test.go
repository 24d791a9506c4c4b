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

func TestBooksLikeTheNaiveModel(t *testing.T) {
	t.Parallel()
	for seed := range uint64(seeds) {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) { followModel(t, seed, plan{policies: testPolicies}) })
	}
}

func TestBooksLikeTheNaiveModelWhileLimitsAreChanged(t *testing.T) {
	t.Parallel()
	for seed := range uint64(seeds) {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			followModel(t, seed, plan{policies: testPolicies, override: true})
		})
	}
}

// plan has the steps of a test that compares a table with the model.
type plan struct {
	policies func(*rand.Rand) policy.Set
	override bool // operators change limits
	anyOrder bool // the table may book any task that could run
	noPools  bool // no handler has slots
	edits    bool // tasks are tried again and get other times, and all priorities occur
	windows  bool // memory has few tasks of a queue
}

func followModel(t *testing.T, seed uint64, p plan) {
	const steps = 300
	rng := rand.New(rand.NewPCG(seed, 1))
	set := p.policies(rng)
	if problems := set.Check(); len(problems) > 0 && set.Slots != 1 {
		t.Fatal(problems)
	}
	m := &model{policies: set, closed: map[string]bool{}, waiting: map[task.Queue][]task.Trigger{}, running: map[task.Queue]int{}}
	if !p.noPools {
		m.pools = map[string]string{"single": "p", "bulk": "p", "payout": "p", "check": "q", "refund": "q"}
	}
	m.slots = map[string]int{"p": rng.IntN(6), "q": rng.IntN(6)}
	size := 1 << 20
	if p.windows {
		size = 2 + rng.IntN(4)
	}
	tab := New(Config{Capacity: 1 << 20, QueueCapacity: size, Policies: set, Pools: m.pools})
	for _, pool := range m.pools {
		tab.Resize(0, pool, m.slots[pool])
	}
	finishScan(tab)
	var slots []Slot
	seq := uint64(0)
	ops, priorities := 11, 3
	if p.override {
		ops = 12
	}
	if p.edits {
		ops, priorities = 14, 10
	}
	for step := range steps {
		switch op := rng.IntN(ops); {
		case op >= 12:
			m.edit(rng, tab)
		case op == 11 && rng.IntN(2) == 0:
			set = edited(rng, set)
			m.policies, m.counted = set, nil
			tab.Adopt(0, set)
		case op == 11:
			m.live, m.counted = changes(rng, set).Live(), nil
			tab.Override(0, uint64(step+1), m.live)
		case op == 10:
			pool := []string{"p", "q"}[rng.IntN(2)]
			m.slots[pool], m.counted = rng.IntN(8), nil
			tab.Resize(0, pool, m.slots[pool])
		case op < 4:
			seq++
			tr := task.Trigger{
				Ref:   task.Ref{ID: task.ID{byte(seq), byte(seq >> 8)}, Version: 1},
				Queue: randomQueue(rng, set),
				Rank:  task.Rank{Priority: uint8(rng.IntN(priorities)), ReadyAt: 1000 * int64(rng.IntN(5)), Seq: seq},
			}
			want, ok := m.claim(tr)
			ok = ok || p.anyOrder && m.fits(tr)
			if slot, got := tab.Claim(0, tr.Queue, tr.Rank); got && !ok {
				t.Fatalf("step %d: claim of %+v: got %v, want %v (best %+v)", step, tr, got, ok, want)
			} else if got {
				slots = append(slots, slot)
				m.start(tr.Queue)
				continue
			}
			m.add(tab, tr)
		case op < 7:
			got, slot, ok := tab.Book(0)
			want, wantOK := m.best()
			if p.anyOrder && ok && wantOK && m.fits(got) {
				want = got
			}
			if ok != wantOK || got != want {
				t.Fatalf("step %d: booked %+v %v, want %+v %v", step, got, ok, want, wantOK)
			}
			if ok {
				slots = append(slots, slot)
				m.book(got)
			}
		case op < 9 && len(slots) > 0:
			i := rng.IntN(len(slots))
			s := slots[i]
			slots = slices.Delete(slots, i, i+1)
			m.running[s.queue.name]--
			tab.Free(0, s)
		case op == 9:
			name := []string{"payout", "report", "free"}[rng.IntN(3)]
			if _, ok := set.Types[name]; !ok {
				break
			}
			m.closed[name] = !m.closed[name]
			tab.Open(0, name, !m.closed[name])
			shelf(m.waiting).answerAll(tab, 0)
			m.wait(tab)
		}
		if p.windows {
			shelf(m.waiting).answerAll(tab, 0)
		}
		if running := tab.check(t); running != len(slots) || tab.Len() != m.len() && !p.windows {
			t.Fatalf("step %d: %d running, %d waiting; want %d, %d", step, running, tab.Len(), len(slots), m.len())
		}
	}
}
