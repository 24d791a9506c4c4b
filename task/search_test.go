package task_test

import (
	"testing"

	"github.com/taskengine/taskengine/task"
)

// Search values are stored: these never change.
func TestSearchValuesAreKnown(t *testing.T) {
	for of, want := range map[[3]string]task.SearchValue{
		{"", "", ""}:                           0xf998341be47bae14,
		{"pay", "payload.customer.id", "17"}:   0x127e3cf0d95f764f,
		{"pay", "payload.customer.id1", "7"}:   0x922f9d44988b246b,
		{"payp", "ayload.customer.id", "17"}:   0x515f97bcd511af5,
		{"pay", "payload.customer.id", "näme"}: 0xe0dd6c0213a92c6,
	} {
		if got := task.SearchValueOf(of[0], of[1], of[2]); got != want {
			t.Errorf("%q: %#x, not %#x", of, uint64(got), uint64(want))
		}
	}
}

func TestAChangeGivesARowItsSearchValues(t *testing.T) {
	row := full()
	kept := row.Clone()
	again := task.Change{Ref: row.Ref(), To: task.Waiting, At: start, Outcome: task.Errored, Error: "no"}
	if !again.Apply(row) || len(row.Search) != len(kept.Search) {
		t.Fatalf("a change without values leaves %v", row.Search)
	}
	values := []task.SearchValue{1, 2}
	next := task.Change{Ref: row.Ref(), To: task.Submitted, At: start, Search: &values}
	if !next.Apply(row) || len(row.Search) != 2 {
		t.Fatalf("the row has %v, not %v", row.Search, values)
	}
	if values[0] = 9; row.Search[0] != 1 {
		t.Error("the row shares memory with the change")
	}
}
