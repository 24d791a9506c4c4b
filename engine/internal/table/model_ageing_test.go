//go:build !race

package table

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/task"
)

// place is the rank by which a task is ordered: with ageing, that of a task of the default priority that
// became ready so much later or earlier.
func (m *model) place(tr task.Trigger) task.Rank {
	ageing := m.policies.Types[tr.Type].Ageing
	if ageing == 0 {
		return tr.Rank
	}
	ready := time.UnixMicro(tr.ReadyAt)
	for p := tr.Priority; p > 5; p-- {
		ready = ready.Add(ageing)
	}
	for p := tr.Priority; p < 5; p++ {
		ready = ready.Add(-ageing)
	}
	return task.Rank{Priority: 5, ReadyAt: ready.UnixMicro(), Seq: tr.Seq}
}

// add adds a task to the model and the table.
func (m *model) add(tab *Table, tr task.Trigger) {
	shelf(m.waiting).put(tr)
	m.wait(nil)
	tab.Add(0, tr)
}

// edit changes a task that waits: it was tried again, or has another time.
func (m *model) edit(rng *rand.Rand, tab *Table) {
	var all []task.Trigger
	for _, queue := range slices.SortedFunc(maps.Keys(m.waiting), compareQueues) {
		all = append(all, m.waiting[queue]...)
	}
	if len(all) == 0 {
		return
	}
	old := all[rng.IntN(len(all))]
	tr := old
	tr.Version++
	shelf(m.waiting).take(old)
	m.wait(nil)
	tab.Drop(0, task.Trigger{Ref: tr.Ref, Queue: old.Queue, Rank: old.Rank})
	if rng.IntN(2) == 0 {
		tr.ReadyAt = 1000 * int64(rng.IntN(8))
	}
	m.add(tab, tr)
}

// age gives some of the types ageing: often less than the times at which tasks become ready differ.
func age(rng *rand.Rand, set policy.Set) policy.Set {
	for _, name := range slices.Sorted(maps.Keys(set.Types)) {
		t := set.Types[name]
		if rng.IntN(3) > 0 {
			t.Ageing = time.Duration(1+rng.IntN(3)) * time.Millisecond
			set.Types[name] = t
		}
	}
	return set
}

func TestBooksTasksThatAgeLikeTheNaiveModel(t *testing.T) {
	t.Parallel()
	for name, p := range map[string]plan{
		"limits":              {policies: testPolicies, edits: true, windows: true},
		"limits that change":  {policies: testPolicies, edits: true, override: true},
		"values in turns":     {policies: fairPolicies, edits: true, noPools: true, windows: true},
		"values that are cut": {policies: crossedPolicies, edits: true, anyOrder: true},
	} {
		policies := p.policies
		p.policies = func(rng *rand.Rand) policy.Set { return age(rng, policies(rng)) }
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(seeds / 8) {
				t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) { followModel(t, seed, p) })
			}
		})
	}
}
