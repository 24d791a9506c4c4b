package enginetest

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/storage/memory"
	"github.com/taskengine/taskengine/task"
)

// mutations are the faults that the checker of random trees must catch. Each changes rows of trees that have ended as their model says; t is
// a parent that is done, has got signals, and has the set s, of which a child is done.
var mutations = map[string]func(rows map[task.ID]*task.Task, t *task.Task, s *task.ChildSet){
	"an end is counted twice": func(_ map[task.ID]*task.Task, _ *task.Task, s *task.ChildSet) { s.Done++ },
	"an end is lost": func(_ map[task.ID]*task.Task, _ *task.Task, s *task.ChildSet) {
		s.Done--
		s.Reported[0] ^= 1 << doneChild
	},
	"an end is counted and not noted": func(_ map[task.ID]*task.Task, _ *task.Task, s *task.ChildSet) { s.Reported[0] ^= 1 << doneChild },
	"a child counts by another end": func(_ map[task.ID]*task.Task, _ *task.Task, s *task.ChildSet) {
		s.Done, s.Failed = s.Done-1, s.Failed+1
	},
	"a child is lost": func(rows map[task.ID]*task.Task, t *task.Task, s *task.ChildSet) {
		delete(rows, s.Child(t.ID, doneChild, -1))
	},
	"a child is not in the count":        func(_ map[task.ID]*task.Task, _ *task.Task, s *task.ChildSet) { s.Added-- },
	"the parent forgets its children":    func(_ map[task.ID]*task.Task, t *task.Task, _ *task.ChildSet) { t.Children = nil },
	"the parent forgets one of the sets": func(_ map[task.ID]*task.Task, _ *task.Task, s *task.ChildSet) { *s = task.ChildSet{Name: "other"} },
	"children of an attempt that failed exist": func(rows map[task.ID]*task.Task, t *task.Task, _ *task.ChildSet) {
		p := task.Parent{ID: t.ID, Name: "none"}
		rows[p.Child()] = &task.Task{ID: p.Child(), State: task.Cancelled, Parent: &p}
	},
	"a child is added twice": func(rows map[task.ID]*task.Task, t *task.Task, s *task.ChildSet) {
		twin := rows[s.Child(t.ID, doneChild, -1)].Clone()
		twin.ID[0]++
		rows[twin.ID] = twin
	},
	"a signal is lost": func(_ map[task.ID]*task.Task, t *task.Task, _ *task.ChildSet) {
		withGot(t, func(got []string) []string { return got[1:] })
	},
	"a signal is taken twice": func(_ map[task.ID]*task.Task, t *task.Task, _ *task.ChildSet) {
		withGot(t, func(got []string) []string { return append(got, got[0]) })
	},
	"a signal is taken that was dropped": func(_ map[task.ID]*task.Task, t *task.Task, _ *task.ChildSet) {
		withGot(t, func(got []string) []string { return append(got, "d9 to "+t.ID.String()) })
	},
	"a signal is that of another task": func(_ map[task.ID]*task.Task, t *task.Task, _ *task.ChildSet) {
		withGot(t, func(got []string) []string { return append(got[1:], t.ID.String()) })
	},
	"the result is lost": func(_ map[task.ID]*task.Task, t *task.Task, _ *task.ChildSet) { t.Result = nil },
}

// doneChild is the number of the child of the set that is done.
const doneChild = 0

// withGot changes the signals that a task says it has got.
func withGot(t *task.Task, change func([]string) []string) {
	var at treeState
	if err := json.Unmarshal(t.Result, &at); err != nil {
		panic(err)
	}
	at.Got = change(at.Got)
	t.Result, _ = json.Marshal(at)
}

// parentWith returns a task and a set of its children as mutations need them; nil if there is none.
func parentWith(rows map[task.ID]*task.Task) (*task.Task, *task.ChildSet) {
	for _, id := range slices.SortedFunc(maps.Keys(rows), task.ID.Compare) {
		t := rows[id]
		var at treeState
		if t.State != task.Done || t.Children == nil || json.Unmarshal(t.Result, &at) != nil || len(at.Got) == 0 {
			continue
		}
		for i := range t.Children.Sets {
			s := &t.Children.Sets[i]
			if child := rows[s.Child(t.ID, doneChild, -1)]; child != nil && child.State == task.Done {
				return t, s
			}
		}
	}
	return nil, nil
}

func TestTheCheckerOfRandomTreesCatchesEachMutation(t *testing.T) {
	n := newNode(t, Config{Open: func(testing.TB) storage.Store { return memory.New() }, Patience: 2 * time.Minute})
	var errors []string
	f := newForest(1, func(format string, args ...any) { errors = append(errors, fmt.Sprintf(format, args...)) }, n.treePeople)
	n.start(types(20, untilDone, "tree"), map[string]handle{"tree": f.handle})
	f.grow(n, 4, func() {})
	rows := f.ended(n)
	if len(errors) > 0 {
		t.Fatalf("the trees have not ended as their model says: %q", errors)
	}
	for name, mutate := range mutations {
		t.Run(name, func(t *testing.T) {
			errors = nil
			mutated := make(map[task.ID]*task.Task)
			for id, row := range rows {
				mutated[id] = row.Clone()
			}
			parent, set := parentWith(mutated)
			if parent == nil {
				t.Fatal("no tree has a parent that this can change")
			}
			mutate(mutated, parent, set)
			if f.verify(mutated); len(errors) == 0 {
				t.Error("the checker does not notice it")
			}
		})
	}
	n.close()
}

func TestTheCheckerOfRandomTreesCatchesWakesTooEarly(t *testing.T) {
	one := func(added, done, failed uint32) *task.Children {
		return &task.Children{Sets: []task.ChildSet{{Name: "a", Added: added, Done: done, Failed: failed}}}
	}
	for name, c := range map[string]struct {
		by       task.WakeBy
		wait     treeStep
		children *task.Children
		isFault  bool
	}{
		"all have ended":                       {task.ByChildren, treeStep{Name: "a"}, one(3, 2, 1), false},
		"one has not ended":                    {task.ByChildren, treeStep{Name: "a"}, one(3, 2, 0), true},
		"enough have ended":                    {task.ByChildren, treeStep{Name: "a", Count: 2}, one(3, 2, 0), false},
		"too few have ended":                   {task.ByChildren, treeStep{Name: "a", Count: 2}, one(3, 1, 0), true},
		"one has failed":                       {task.ByChildren, treeStep{Name: "a", Failed: true}, one(3, 0, 1), false},
		"none has failed":                      {task.ByChildren, treeStep{Name: "a", Failed: true}, one(3, 1, 0), true},
		"the time of a wait with an end":       {task.ByTimeout, treeStep{Name: "a", Until: 1}, one(3, 0, 0), false},
		"the time of a wait without an end":    {task.ByTimeout, treeStep{Name: "a"}, one(3, 0, 0), true},
		"a user":                               {task.ByUser, treeStep{Name: "a"}, one(3, 0, 0), true},
		"a signal in a wait for children":      {task.BySignal, treeStep{Name: "a"}, one(3, 0, 0), true},
		"children in a wait for a signal":      {task.ByChildren, treeStep{Signal: true}, one(3, 3, 0), true},
		"a signal in a wait for a signal":      {task.BySignal, treeStep{Signal: true}, nil, false},
		"the first attempt, which no one woke": {task.NotWoken, treeStep{}, nil, false},
	} {
		var errors []string
		f := newForest(1, func(format string, args ...any) { errors = append(errors, fmt.Sprintf(format, args...)) }, nil)
		f.checkWake(&task.Task{Children: c.children, Signals: &task.Signals{Wake: task.Wake{By: c.by}}}, &treeState{Wait: c.wait})
		if isFault := len(errors) > 0; isFault != c.isFault {
			t.Errorf("%s: the checker says %q", name, strings.Join(errors, "; "))
		}
	}
}
