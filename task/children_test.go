package task_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/taskengine/taskengine/task"
)

// concludeAdding ends the attempt of t by what its handler returns, with children as an engine adds them.
func concludeAdding(t *task.Task, at time.Time, err error, adds ...task.AddedChildren) bool {
	is := task.RunningOf(t)
	rules := &task.Rules{QueueTimeout: time.Minute, KeepDone: time.Hour, Retry: noRetries{}}
	v := task.VerdictOf([]byte("r"), err)
	if len(adds) > 0 {
		v.Rerun = &task.Rerun{Adds: adds}
	}
	return task.Conclude(at, &is, v, rules, func() float64 { return 0 }).Change.Apply(t)
}

func waitForAll(name string) error {
	return task.WaitForChildren([]task.ChildrenWait{{Name: name}}, time.Time{})
}

func report(t *task.Task, name string, at time.Time, ends ...task.ChildEnd) bool {
	return task.Change{Ref: task.Ref{ID: t.ID}, At: at, Ends: &task.ChildEnds{Name: name, Ends: ends}}.Apply(t)
}

func TestTheLastChildWakesItsParent(t *testing.T) {
	a := running()
	if !concludeAdding(a, dawn, waitForAll("page"), task.AddedChildren{Name: "page", Count: 3}) || a.State != task.Waiting {
		t.Fatalf("it is %v", a.State)
	}
	version, at := a.Version, dawn.Add(time.Hour)
	for _, end := range []task.ChildEnd{{Index: 2, State: task.Done}, {Index: 0, State: task.Failed}} {
		if !report(a, "page", at, end) || report(a, "page", at, end) {
			t.Errorf("the end of child %d was not taken once", end.Index)
		}
	}
	if report(a, "page", at, task.ChildEnd{Index: 3, State: task.Done}) || report(a, "other", at, task.ChildEnd{State: task.Done}) || report(a, "page", at, task.ChildEnd{Index: 1, State: task.Error}) {
		t.Error("it has taken the end of a child that it does not have, or that has not ended")
	}
	if a.State != task.Waiting || a.Version != version {
		t.Fatalf("after two of three it is %v at version %d", a.State, a.Version)
	}
	if !report(a, "page", at, task.ChildEnd{Index: 1, State: task.Cancelled}) || a.State != task.Submitted || a.Version != version+1 {
		t.Fatalf("after all of them it is %v at version %d", a.State, a.Version)
	}
	if a.Woken().By != task.ByChildren || !a.NextEventAt.Equal(at.Add(time.Minute)) {
		t.Errorf("it was woken by %v, and is overdue at %v", a.Woken().By, a.NextEventAt)
	}
	s := a.Children.Set("page")
	if s.Done != 1 || s.Failed != 1 || s.Cancelled != 1 || s.Await != 0 || !s.HasEnded(2) {
		t.Errorf("its children are %+v", s)
	}
}

func TestAWaitForChildrenThatHaveEndedIsOverAtOnce(t *testing.T) {
	a := running()
	concludeAdding(a, dawn, task.Again(dawn.Add(time.Second)), task.AddedChildren{Name: "a", Count: 1}, task.AddedChildren{Name: "b", Count: 2})
	grab(a, dawn.Add(time.Second))
	report(a, "a", dawn, task.ChildEnd{State: task.Done})
	if a.State != task.Processing {
		t.Fatalf("the end of a child made it %v", a.State)
	}
	concludeAdding(a, dawn.Add(time.Second), waitForAll("a"))
	if a.State != task.Submitted || a.Woken().By != task.ByChildren {
		t.Errorf("it is %v, woken by %v", a.State, a.Woken().By)
	}
	grab(a, dawn.Add(time.Second))
	concludeAdding(a, dawn.Add(time.Second), waitForAll("none"))
	if a.State != task.Submitted {
		t.Errorf("a wait for no children made it %v", a.State)
	}
	grab(a, dawn.Add(time.Second))
	concludeAdding(a, dawn.Add(time.Second), task.WaitForChildren([]task.ChildrenWait{{Name: "b", OrFailed: true}}, time.Time{}))
	if report(a, "b", dawn, task.ChildEnd{Index: 1, State: task.Failed}); a.State != task.Submitted {
		t.Errorf("a child that failed left it %v", a.State)
	}
}

func TestChildrenAreNumberedOnce(t *testing.T) {
	a := running()
	if concludeAdding(a, dawn, nil, task.AddedChildren{Name: "a", From: 1, Count: 1}) {
		t.Error("children were added with a gap before them")
	}
	if !concludeAdding(a, dawn, waitForAll("a"), task.AddedChildren{Name: "a", Count: 2}, task.AddedChildren{Name: "a", From: 2, Count: 1, Shards: nil}) {
		t.Fatal("children were not added")
	}
	if n := a.Children.Set("a").Added; n != 3 {
		t.Errorf("it has %d children", n)
	}
	grab(a, dawn)
	if is := task.RunningOf(a); (task.Change{Ref: a.Ref(), By: is.Owner, To: task.Waiting, Outcome: task.Errored, At: dawn, Adds: []task.AddedChildren{{Name: "a", From: 3, Count: 1}}}).Apply(a) {
		t.Error("an attempt that failed has added children")
	}
	seen := make(map[task.ID]bool)
	for _, name := range []string{"a", "b"} {
		for i := range uint32(1000) {
			id := task.Parent{ID: a.ID, Name: name, Index: i}.Child()
			if seen[id] || id[6]>>4 != 8 || id[8]>>6 != 2 || [6]byte(id[:6]) != [6]byte(a.ID[:6]) {
				t.Fatalf("child %d of %s is %v", i, name, id)
			}
			seen[id] = true
		}
	}
	set := task.ChildSet{Name: "a", Shards: []byte{7, 7}}
	last := task.ID{}
	for i := range uint32(3000) {
		id := set.Child(a.ID, i, 9) // also where the shard is given
		if want := uint16(9); i >= 2 && id.Shard() != want || i < 2 && id.Shard() != 7 {
			t.Fatalf("child %d is in shard %d", i, id.Shard())
		}
		if id.Compare(last) <= 0 {
			t.Fatalf("child %d is %v, after %v", i, id, last)
		}
		last = id
	}
	shards := make(map[uint16]int)
	for i := range uint32(task.ShardCount) {
		shards[task.Parent{ID: a.ID, Name: "a", Index: i}.Child().Shard()]++
	}
	if len(shards) != task.ShardCount {
		t.Errorf("%d children are in %d shards", task.ShardCount, len(shards))
	}
	// The id is stored, and must not change with the program.
	if got := (task.Parent{ID: task.ID{15: 3}, Name: "name", Index: 5}).Child().String(); got != "00000000-0000-84be-8c00-8e0070000536" {
		t.Errorf("got %s", got)
	}
}

// Random histories against sets of numbers: each wait ends once, when its children have ended and not before, and nothing but
// that changes the version.
func TestRandomChildren(t *testing.T) {
	for seed := range uint64(2000) {
		rng := rand.New(rand.NewPCG(seed, 2))
		a, at := running(), dawn
		names := []string{"a", "b", "c"}
		added, ended := map[string]uint32{}, map[string]map[uint32]task.State{"a": {}, "b": {}, "c": {}}
		var waits []task.ChildrenWait
		met := func() bool {
			for _, w := range waits {
				n, failed := uint32(len(ended[w.Name])), false
				for _, s := range ended[w.Name] {
					failed = failed || s != task.Done
				}
				if count := min(w.Count, added[w.Name]); n >= count && count > 0 || w.Count == 0 && n == added[w.Name] || added[w.Name] == 0 || w.OrFailed && failed {
					return true
				}
			}
			return false
		}
		for step := range 80 {
			at = at.Add(time.Duration(rng.IntN(1000)) * time.Millisecond)
			version, state := a.Version, a.State
			switch rng.IntN(4) {
			case 0, 1:
				name := names[rng.IntN(3)]
				end := task.ChildEnd{Index: uint32(rng.IntN(12)), State: []task.State{task.Done, task.Done, task.Failed, task.Cancelled}[rng.IntN(4)]}
				_, known := ended[name][end.Index]
				isNew := end.Index < added[name] && !known
				if isNew {
					ended[name][end.Index] = end.State
				}
				if got := report(a, name, at, end); got != isNew {
					t.Fatalf("seed %d, step %d: the end of child %d of %s was taken: %v", seed, step, end.Index, name, got)
				}
				wakes := state == task.Waiting && isNew && met()
				if (a.Version != version) != wakes || (a.State == task.Submitted) != (wakes || state == task.Submitted) {
					t.Fatalf("seed %d, step %d: the end of a child made %v of %v, with %+v", seed, step, a.State, state, a.Children)
				}
			case 2:
				if a.State == task.Submitted && !grab(a, at) {
					t.Fatalf("seed %d, step %d: it was not grabbed", seed, step)
				}
			case 3:
				if a.State != task.Processing {
					continue
				}
				if rng.IntN(4) == 0 {
					concludeAdding(a, at, errors.New("no"))
					grab(a, at.Add(time.Second))
					continue
				}
				var adds []task.AddedChildren
				for _, name := range names {
					if n := uint32(rng.IntN(4)); n > 0 && added[name] < 8 {
						adds = append(adds, task.AddedChildren{Name: name, From: added[name], Count: n})
						added[name] += n
					}
				}
				waits = nil
				for range 1 + rng.IntN(2) {
					w := task.ChildrenWait{Name: names[rng.IntN(3)], Count: uint32(rng.IntN(4)), OrFailed: rng.IntN(3) == 0}
					waits = append(waits, w)
				}
				if len(waits) == 2 && waits[0].Name == waits[1].Name {
					waits = waits[:1]
				}
				if !concludeAdding(a, at, task.WaitForChildren(waits, time.Time{}), adds...) {
					t.Fatalf("seed %d, step %d: the attempt did not end", seed, step)
				}
				if (a.State == task.Submitted) != met() {
					t.Fatalf("seed %d, step %d: with %v, waiting for %+v, it is %v", seed, step, fmt.Sprint(ended), waits, a.State)
				}
			}
		}
		for _, name := range names {
			if s := a.Children.Set(name); s != nil && (s.Added != added[name] || int(s.Ended()) != len(ended[name])) {
				t.Fatalf("seed %d: %+v, with %d added and %d ended", seed, s, added[name], len(ended[name]))
			}
		}
	}
}
