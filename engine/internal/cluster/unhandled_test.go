package cluster

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/taskengine/taskengine/task"
)

func TestUnhandledTypesAreFoundByBoundedReads(t *testing.T) {
	s := newStore(t)
	add := func(typ, group string, n int) {
		for range n {
			row := ready(0)
			row.Type, row.Group = typ, task.GroupOf(group)
			insert(t, s, row)
		}
	}
	add("alone", "", 1)
	add("full", "", maxCounted)
	add("grouped", "a", 2)
	add("grouped", "b", 3)
	for i := range 2 * maxCounted {
		add("many groups", fmt.Sprint(i), 1)
	}
	add("run", "", 7)
	later := ready(0)
	later.Type, later.State, later.NextEventAt = "later", task.Waiting, time.Now().Add(time.Hour)
	insert(t, s, later)
	find := func() []Unhandled {
		found, err := findUnhandled(t.Context(), s, func(typ string) bool { return typ == "run" })
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	want := []Unhandled{{Type: "alone", Tasks: 1}, {Type: "full", Tasks: maxCounted, More: true}, {Type: "grouped", Tasks: 5}, {Type: "many groups", Tasks: maxCounted, More: true}}
	if got := find(); !slices.Equal(got, want) {
		t.Errorf("found %v, want %v", got, want)
	}
	for i := range 2 * maxUnhandled {
		add(fmt.Sprintf("made up %d", i), "", 1)
	}
	if got := find(); len(got) != maxUnhandled {
		t.Errorf("of very many types %d are found", len(got))
	}
}
