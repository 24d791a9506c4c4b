//go:build !race

package table

import (
	"fmt"
	"testing"

	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/task"
)

func TestTypesThatAreNotConfiguredTakeNoMemoryOnceTheyAreEmpty(t *testing.T) {
	const capacity = 20
	set := policy.Set{
		Types:  map[string]policy.Type{"mail": typeOf("partner")},
		Limits: map[string]policy.Limit{"partner": {Name: "partner", Per: "key", Max: 1}},
	}
	tab := New(Config{Capacity: capacity, QueueCapacity: 10, Policies: set})
	tab.Open(0, "mail", true)
	tab.Scanned(nil, true)
	for i := range 10 * capacity {
		unknown := task.Queue{Type: fmt.Sprint("unknown ", i)}
		tab.Explain(0, unknown, task.Rank{})
		if _, ok := tab.Claim(0, unknown, task.Rank{}); ok {
			t.Fatal("a slot was claimed for a type without a handler")
		}
	}
	if len(tab.queues) != 0 || len(tab.kinds) != 1 || tab.idle != 0 {
		t.Errorf("it keeps %d queues, %d types, and counts %d queues that come and go", len(tab.queues), len(tab.kinds), tab.idle)
	}
	tr := task.Trigger{Ref: task.Ref{ID: task.ID{1}, Version: 1}, Queue: task.Queue{Type: "mail", Group: "acme"}}
	if !tab.Add(0, tr) {
		t.Error("there is no room for a task of a new partner")
	}
	if got, _, ok := tab.Book(0); !ok || got.ID != tr.ID {
		t.Error("it is not started")
	}
}
