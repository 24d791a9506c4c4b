package table

import (
	"testing"

	"github.com/taskengine/taskengine/engine/policy"
	"github.com/taskengine/taskengine/engine/task"
)

func typeOf(limits ...string) policy.Type {
	t := policy.DefaultType()
	t.Limits = limits
	return t
}

// tryAdd adds the n-th task of a type.
func tryAdd(tab *Table, typ string, n uint64) {
	tab.Add(0, task.Trigger{
		Ref:  task.Ref{ID: task.ID{byte(n)}, Version: 1},
		Leaf: task.Leaf{Type: typ},
		Rank: task.Rank{ReadyAt: int64(n), Seq: n},
	})
}

func TestALimitHoldsThatIsTheTreeForOneTypeAndCutsAcrossAnother(t *testing.T) {
	for name, order := range map[string][2]string{"the tree first": {"below", "across"}, "across first": {"across", "below"}} {
		t.Run(name, func(t *testing.T) {
			tab := New(Config{Capacity: 100, LeafCapacity: 100, Policies: policy.Set{
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
				t.Fatalf("%s is booked over the limit", tr.Leaf.Type)
			}
			tab.Free(0, slot)
			if tr, _, ok := tab.Book(0); !ok || tr.Leaf.Type != order[1] {
				t.Errorf("booked %q %v after the slot was freed, want %q", tr.Leaf.Type, ok, order[1])
			}
			tab.check(t)
		})
	}
}
