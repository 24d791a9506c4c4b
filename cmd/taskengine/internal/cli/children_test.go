package cli

import (
	"strings"
	"testing"

	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
	"github.com/taskengine/taskengine/task"
)

func TestATaskIsShownWithItsParentAndItsChildren(t *testing.T) {
	awaits := []string{task.AwaitsChildren}
	page := func(awaits uint32, orFailed bool) *taskenginev1.ChildSet {
		return &taskenginev1.ChildSet{Name: "page", Added: 9, Done: 2, Failed: 1, Cancelled: 1, Awaits: awaits, OrFailed: orFailed}
	}
	for want, shown := range map[string]*taskenginev1.Task{
		"parent         p, of which it is the child 3 \"page\"\n":                      {Parent: &taskenginev1.Parent{Id: "p", Name: "page", Index: 3}},
		"children       9 \"page\": 2 done, 1 failed, 1 cancelled, 5 have not ended\n": {Children: []*taskenginev1.ChildSet{page(0, false)}},
		"waits for      2 more of 9 children \"page\"\n":                               {State: "waiting", Awaits: awaits, Children: []*taskenginev1.ChildSet{page(6, false)}},
		"waits for      5 more of 9 children \"page\", or one that fails or is cancelled, or 1 more of 2 children \"b\"\n": {
			State: "waiting", Awaits: awaits, Children: []*taskenginev1.ChildSet{page(9, true), {Name: "c", Added: 1}, {Name: "b", Added: 2, Awaits: 1}},
		},
		"waits for      more children \"page\" to be added, of which there are 9\n": {
			State: "waiting", Awaits: awaits, Children: []*taskenginev1.ChildSet{{Name: "page", Added: 9, Open: true}},
		},
		"waits for      children\n":          {State: "waiting", Awaits: awaits},
		"waits for      the signal a or b\n": {State: "waiting", Awaits: []string{"a", "b"}},
		"woken by       children\n":          {WokenBy: "children"},
	} {
		var out strings.Builder
		if err := (&app{stdout: &out}).showTask(shown); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains("\n"+out.String(), "\n"+want) || strings.Contains(out.String(), task.AwaitsChildren) {
			t.Errorf("it shows %q, want %q", out.String(), want)
		}
	}
}
