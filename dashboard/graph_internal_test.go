package dashboard

import (
	"testing"

	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
)

func TestStepsAreDrawnAfterThoseBeforeThem(t *testing.T) {
	step := func(name string, after ...string) *taskenginev1.WorkflowStep {
		return &taskenginev1.WorkflowStep{Name: name, State: "done", After: after}
	}
	g := graphOf([]*taskenginev1.WorkflowStep{step("a"), step("b", "a"), step("c", "a"), step("d", "b", "c", "missing"), step("e")})
	at := make(map[string]box)
	for _, b := range g.Boxes {
		at[b.Name] = b
	}
	if len(g.Boxes) != 5 || len(g.Lines) != 4 {
		t.Fatalf("there are %d boxes and %d lines", len(g.Boxes), len(g.Lines))
	}
	if at["a"].X != at["e"].X || at["b"].X != at["c"].X || at["b"].X <= at["a"].X || at["d"].X <= at["c"].X || at["a"].Y == at["e"].Y || at["b"].Y == at["c"].Y {
		t.Errorf("the boxes are %+v", g.Boxes)
	}
	for _, b := range g.Boxes {
		if b.X+b.Width > g.Width || b.Y+b.Height > g.Height {
			t.Errorf("the box %+v is outside of %d by %d", b, g.Width, g.Height)
		}
	}
	if got := graphOf(nil); len(got.Boxes) != 0 || got.Width != 0 {
		t.Errorf("no steps are %+v", got)
	}
	if got := graphOf(make([]*taskenginev1.WorkflowStep, mostSteps+1)); len(got.Boxes) != 0 {
		t.Error("too many steps are drawn")
	}
}
