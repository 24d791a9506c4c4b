package task_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/taskengine/taskengine/task"
)

func extend(t *task.Task, at time.Time, more task.MoreChildren) bool {
	return task.Change{Ref: task.Ref{ID: t.ID}, At: at, More: &more}.Apply(t)
}

// Random histories against counts: children are added at the end of the set alone, and the task is woken once, by the close or by
// the last end after it.
func TestRandomOpenChildren(t *testing.T) {
	for seed := range uint64(2000) {
		rng := rand.New(rand.NewPCG(seed, 3))
		at, first := dawn, uint32(rng.IntN(3))
		row := expecting(&task.Rules{QueueTimeout: time.Minute}, new(task.Task), []string{"a"}, []task.AddedChildren{{Name: "a", Count: first}}, task.ChildrenWait{Name: "a", Count: task.OpenChildren})
		added, ended, failed, isOpen := first, map[uint32]bool{}, false, true
		var wait task.ChildrenWait
		for step := range 40 {
			at = at.Add(time.Millisecond)
			if rng.IntN(2) == 0 {
				end := task.ChildEnd{Index: uint32(rng.IntN(12)), State: []task.State{task.Done, task.Failed}[rng.IntN(2)]}
				isNew := end.Index < added && !ended[end.Index]
				if got := report(row, "a", at, end); got != isNew {
					t.Fatalf("seed %d, step %d: the end of child %d was taken: %t", seed, step, end.Index, got)
				}
				if isNew {
					ended[end.Index] = true
					failed = failed || end.State == task.Failed
				}
			} else {
				m := task.MoreChildren{Close: rng.IntN(8) == 0, AddedChildren: task.AddedChildren{Name: []string{"a", "a", "b"}[rng.IntN(3)], From: uint32(rng.IntN(12)), Count: uint32(rng.IntN(3))}}
				if m.Close {
					m.Wait = task.ChildrenWait{Count: uint32(rng.IntN(4)), OrFailed: rng.IntN(2) == 0}
				}
				fits := isOpen && m.Name == "a" && m.From == added
				if got := extend(row, at, m); got != fits {
					t.Fatalf("seed %d, step %d: %+v was applied: %t, to %d children", seed, step, m, got, added)
				}
				if fits {
					added, isOpen, wait = added+m.Count, !m.Close, m.Wait
				}
			}
			if wait.Count == 0 || wait.Count > added {
				wait.Count = added
			}
			isOver := !isOpen && (uint32(len(ended)) >= wait.Count || wait.OrFailed && failed)
			if (row.State == task.Submitted) != isOver || row.Version == 2 != isOver {
				t.Fatalf("seed %d, step %d: it is %v at version %d, with %d of %d children, open: %t", seed, step, row.State, row.Version, len(ended), added, isOpen)
			}
			if isOver {
				break
			}
		}
		if s := row.Children.Set("a"); s.Added != added || int(s.Ended()) != len(ended) || s.IsOpen() != isOpen {
			t.Fatalf("seed %d: %+v, want %d of %d", seed, s, len(ended), added)
		}
	}
}

func TestChildrenThatAreOpenAreBounded(t *testing.T) {
	row := expecting(new(task.Rules), new(task.Task), []string{"a"}, []task.AddedChildren{{Name: "a", Count: 1}}, task.ChildrenWait{Name: "a", Count: task.OpenChildren})
	for why, m := range map[string]task.AddedChildren{
		"too many":                   {Name: "a", From: 1, Count: task.MaxChildren},
		"shards of others":           {Name: "a", From: 1, Count: 2, Shards: []byte{1}},
		"shards, the first has none": {Name: "a", From: 1, Count: 1, Shards: []byte{1}},
	} {
		if extend(row.Clone(), dawn, task.MoreChildren{AddedChildren: m}) {
			t.Errorf("%s were added", why)
		}
	}
	for _, c := range []task.Change{
		{Ref: row.Ref(), To: task.Submitted, At: dawn},
		{Ref: row.Ref(), To: task.Cancelled, At: dawn},
	} {
		over := row.Clone()
		if !c.Apply(over) || over.Children.Set("a").IsOpen() || extend(over, dawn, task.MoreChildren{AddedChildren: task.AddedChildren{Name: "a", From: 1, Count: 1}}) {
			t.Errorf("a task that became %v takes more: %+v", c.To, over.Children)
		}
	}
}
