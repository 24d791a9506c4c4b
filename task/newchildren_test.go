package task_test

import (
	"testing"
	"time"

	"github.com/taskengine/taskengine/task"
)

// expecting returns a new row that waits as said, made twice, as an engine may make it.
func expecting(rules *task.Rules, of *task.Task, names []string, adds []task.AddedChildren, waits ...task.ChildrenWait) *task.Task {
	of.ID, of.Type, of.Children = task.ID{1}, "x", task.Expecting(names, adds, waits)
	rules.Create(dawn, of)
	rules.Create(dawn, of)
	return of
}

func TestANewTaskWaitsForItsChildren(t *testing.T) {
	rules, noon := &task.Rules{QueueTimeout: time.Minute}, dawn.Add(time.Hour)
	two := []task.AddedChildren{{Name: "a", Count: 2}}
	none := []task.AddedChildren(nil)
	for name, c := range map[string]struct {
		row   *task.Task
		state task.State
		by    task.WakeBy
		at    time.Time // NextEventAt
	}{
		"all":                {expecting(rules, new(task.Task), []string{"a"}, two, task.ChildrenWait{Name: "a"}), task.Waiting, task.NotWoken, time.Time{}},
		"until":              {expecting(rules, &task.Task{ReadyAt: noon}, []string{"a"}, two, task.ChildrenWait{Name: "a"}), task.Waiting, task.NotWoken, noon},
		"more follow":        {expecting(rules, new(task.Task), []string{"a"}, none, task.ChildrenWait{Name: "a", Count: 9}), task.Waiting, task.NotWoken, time.Time{}},
		"none":               {expecting(rules, new(task.Task), []string{"a"}, none, task.ChildrenWait{Name: "a"}), task.Submitted, task.ByChildren, dawn.Add(time.Minute)},
		"one of two is none": {expecting(rules, new(task.Task), []string{"a", "b"}, two, task.ChildrenWait{Name: "a"}, task.ChildrenWait{Name: "b"}), task.Submitted, task.ByChildren, dawn.Add(time.Minute)},
		"too late":           {expecting(rules, &task.Task{ReadyAt: dawn}, []string{"a"}, two, task.ChildrenWait{Name: "a"}), task.Submitted, task.ByTimeout, dawn.Add(time.Minute)},
		"expires before":     {expecting(rules, &task.Task{ReadyAt: noon, ExpiresAt: dawn.Add(time.Second)}, []string{"a"}, two, task.ChildrenWait{Name: "a"}), task.Waiting, task.NotWoken, dawn.Add(time.Second)},
	} {
		got := c.row
		if got.State != c.state || got.Woken().By != c.by || !got.NextEventAt.Equal(c.at) {
			t.Errorf("%s: it is %v, woken by %v, and due at %v", name, got.State, got.Woken().By, got.NextEventAt)
		}
		if waits := len(got.Awaits()) > 0; waits != (c.state == task.Waiting) || got.Children.Set("a") == nil {
			t.Errorf("%s: it waits for %v, and has the children %+v", name, got.Awaits(), got.Children)
		}
		for _, s := range got.Children.Sets {
			if c.state != task.Waiting && s.Await > 0 {
				t.Errorf("%s: it is %v, and waits for %d", name, got.State, s.Await)
			}
		}
	}
	ordered := expecting(rules, &task.Task{OrderingKey: "o"}, []string{"a"}, two, task.ChildrenWait{Name: "a"})
	if !ordered.ReadyAt.Equal(task.LastTime) || !ordered.NextEventAt.IsZero() {
		t.Errorf("one with an ordering key has the seat of %v, and is due at %v", ordered.ReadyAt, ordered.NextEventAt)
	}
}

func TestTheChildrenOfANewTaskWakeIt(t *testing.T) {
	at := dawn.Add(time.Hour)
	row := expecting(&task.Rules{QueueTimeout: time.Minute}, new(task.Task), []string{"a"}, []task.AddedChildren{{Name: "a", Count: 2}}, task.ChildrenWait{Name: "a"})
	if !report(row, "a", at, task.ChildEnd{Index: 0, State: task.Failed}) || row.State != task.Waiting || row.Version != 1 {
		t.Fatalf("after one of two it is %v at version %d", row.State, row.Version)
	}
	if !report(row, "a", at, task.ChildEnd{Index: 1, State: task.Done}) || row.State != task.Submitted || row.Version != 2 {
		t.Fatalf("after both it is %v at version %d", row.State, row.Version)
	}
	if row.Woken().By != task.ByChildren || !row.ReadyAt.Equal(at) || !row.NextEventAt.Equal(at.Add(time.Minute)) || row.HasBegun() {
		t.Errorf("it is %+v", row)
	}
}

func TestATaskWithChildrenIsNotReplacedAndReplacesNone(t *testing.T) {
	for _, mode := range []task.OnConflict{task.ReplaceExisting, task.DebounceExisting} {
		rules := &task.Rules{OnConflict: mode}
		parent := expecting(rules, &task.Task{Key: "k"}, []string{"a"}, []task.AddedChildren{{Name: "a", Count: 2}}, task.ChildrenWait{Name: "a"})
		alone := &task.Task{ID: task.ID{2}, Type: "x", Key: "k"}
		rules.Create(dawn, alone)
		for name, pair := range map[string][2]*task.Task{"a parent": {parent, alone}, "another": {alone, parent}} {
			if got, change := task.Resolve(dawn, pair[0], pair[1], rules); got != task.Exists || change != nil {
				t.Errorf("%v: the request for %s %v", mode, name, got)
			}
		}
		if change := (task.Change{Ref: parent.Ref(), To: task.Waiting, At: dawn, Replace: &task.Replace{}}); change.Apply(parent.Clone()) {
			t.Errorf("%v: a parent was replaced", mode)
		}
	}
}
