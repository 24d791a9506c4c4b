package task_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/taskengine/taskengine/task"
)

// turnAfter says what [task.Change.Apply] makes of the turn of a row that has an ordering key.
func turnAfter(before *task.Task, c task.Change) task.Turn {
	isOut := map[task.State]bool{task.Done: true, task.Failed: true, task.Cancelled: true, task.Error: c.Leaves}
	wasOut := before.Turn == task.Unordered
	movesSeat := (c.To == task.Waiting || c.To == task.Submitted) && !c.ReadyAt.IsZero()
	switch {
	case isOut[c.To]:
		return task.Unordered
	case wasOut && before.State.Live():
		return task.Unordered
	case wasOut || movesSeat:
		return task.Behind
	}
	return before.Turn
}

func TestTheHeadOfAKeyIsTheTaskWithTheFirstSeat(t *testing.T) {
	row := func(s task.State, readyAt int64, seq uint64, begun bool) *task.Task {
		r := &task.Task{State: s, ReadyAt: time.UnixMicro(readyAt), Seq: seq, OrderingKey: "k"}
		if begun {
			r.StartedAt = time.UnixMicro(1)
		}
		return r
	}
	for name, c := range map[string]struct {
		head, first     *task.Task
		demote, promote bool
	}{
		"nothing":                              {nil, nil, false, false},
		"only a head":                          {row(task.Submitted, 5, 5, false), nil, false, false},
		"no head":                              {nil, row(task.Submitted, 5, 5, false), false, true},
		"no head, and the first waits":         {nil, row(task.Waiting, 5, 5, false), false, false},
		"no head, and the first is an error":   {nil, row(task.Error, 5, 5, false), false, true},
		"an earlier time":                      {row(task.Submitted, 5, 5, false), row(task.Submitted, 4, 9, false), true, true},
		"the same time, added before":          {row(task.Submitted, 5, 5, false), row(task.Submitted, 5, 4, false), true, true},
		"the same time, added after":           {row(task.Submitted, 5, 5, false), row(task.Submitted, 5, 6, false), false, false},
		"an earlier one that waits":            {row(task.Submitted, 5, 5, false), row(task.Waiting, 4, 4, false), false, false},
		"an earlier error":                     {row(task.Submitted, 5, 5, false), row(task.Error, 4, 4, true), true, true},
		"an earlier error that never began":    {row(task.Submitted, 5, 5, false), row(task.Error, 4, 4, false), true, true},
		"a later error":                        {row(task.Submitted, 5, 5, false), row(task.Error, 6, 4, true), false, false},
		"an earlier error, and a head begun":   {row(task.Submitted, 5, 5, true), row(task.Error, 4, 4, true), false, false},
		"a head that runs":                     {row(task.Processing, 5, 5, true), row(task.Submitted, 4, 4, false), false, false},
		"a head that waits for its next try":   {row(task.Waiting, 5, 5, true), row(task.Submitted, 4, 4, false), false, false},
		"a head that was handed back":          {row(task.Submitted, 5, 5, true), row(task.Submitted, 4, 4, false), false, false},
		"a head that is an error":              {row(task.Error, 5, 5, true), row(task.Submitted, 4, 4, false), false, false},
		"an earlier one that began and yields": {row(task.Submitted, 5, 5, false), row(task.Submitted, 4, 4, true), true, true},
	} {
		demote, promote := task.NextHead(c.head, c.first)
		if demote != c.demote || promote != c.promote {
			t.Errorf("%s: demote %t, promote %t; want %t, %t", name, demote, promote, c.demote, c.promote)
		}
	}
}

func TestSeatsAreOrderedByReadinessThenInsertion(t *testing.T) {
	ordered := []task.Seat{{-1, 9}, {0, 1}, {0, 2}, {3, 0}}
	for i, a := range ordered {
		for j, b := range ordered {
			if got, want := a.Compare(b), min(1, max(-1, i-j)); got != want {
				t.Errorf("%v compared with %v is %d, want %d", a, b, got, want)
			}
		}
	}
}

func ExampleNextHead() {
	at := time.Date(2026, 5, 2, 12, 0, 0, 0, time.UTC)
	head := &task.Task{State: task.Submitted, ReadyAt: at, Seq: 7}
	earlier := &task.Task{State: task.Submitted, ReadyAt: at.Add(-time.Second), Seq: 8}
	fmt.Println(task.NextHead(head, earlier))
	head.StartedAt = at.Add(time.Minute) // it was grabbed
	fmt.Println(task.NextHead(head, earlier))
	// Output:
	// true true
	// false false
}
