//go:build !race

package client_test

import (
	"go/constant"
	"go/types"
	"slices"
	"strings"
	"testing"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/schedule"
	"github.com/taskengine/taskengine/schedule/calendar"
	"github.com/taskengine/taskengine/schedule/scheduler"
	"github.com/taskengine/taskengine/task"
)

// Every word that a node of this version may say has a constant, and no other word has one.
func TestEveryWordOfANodeHasAConstant(t *testing.T) {
	const module = "github.com/taskengine/taskengine/"
	packages := load(t, module+"client", module+"engine", module+"task", module+"schedule", module+"schedule/calendar", module+"schedule/scheduler")
	for _, one := range []struct {
		here  string             // a type of this package
		there string             // the package that has the words
		of    string             // its type that has them, or the beginning of the names of its constants
		word  func(uint8) string // of a constant that is a number; nil if it is the word
	}{
		{"State", "task", "State", func(i uint8) string { return task.State(i).String() }},
		{"AttemptOutcome", "task", "Outcome", func(i uint8) string { return task.Outcome(i).String() }},
		{"ReceiptOutcome", "engine", "SubmitOutcome", func(i uint8) string { return engine.SubmitOutcome(i).String() }},
		{"WokenBy", "task", "WakeBy", func(i uint8) string { return task.WakeBy(i).String() }},
		{"ReasonCode", "engine", "Code", nil},
		{"ScheduleOutcome", "schedule/scheduler", "Outcome", func(i uint8) string { return scheduler.Outcome(i).String() }},
		{"ScheduleGap", "schedule/calendar", "Gap", func(i uint8) string { return calendar.Gap(i).String() }},
		{"ScheduleRepeat", "schedule/calendar", "Repeat", func(i uint8) string { return calendar.Repeat(i).String() }},
		{"ScheduleOverlap", "schedule", "Overlap", func(i uint8) string { return schedule.Overlap(i).String() }},
		{"CatchUpPolicy", "schedule", "Policy", func(i uint8) string { return schedule.Policy(i).String() }},
	} {
		var have, want []string
		for _, c := range constants(packages[module+"client"]) {
			if isNamed(c.Type(), one.here) {
				have = append(have, constant.StringVal(c.Val()))
			}
		}
		for _, c := range constants(packages[module+one.there]) {
			switch {
			case one.word == nil && strings.HasPrefix(c.Name(), one.of) && c.Val().Kind() == constant.String:
				want = append(want, constant.StringVal(c.Val()))
			case one.word != nil && isNamed(c.Type(), one.of):
				i, _ := constant.Uint64Val(c.Val())
				want = append(want, one.word(uint8(i)))
			}
		}
		slices.Sort(have)
		slices.Sort(want)
		if len(want) < 2 || !slices.Equal(have, want) {
			t.Errorf("%s has %v, and the words of a node are %v", one.here, have, want)
		}
	}
}

// constants returns the exported constants of a package.
func constants(p *types.Package) (cs []*types.Const) {
	for _, name := range p.Scope().Names() {
		if c, ok := p.Scope().Lookup(name).(*types.Const); ok && c.Exported() {
			cs = append(cs, c)
		}
	}
	return cs
}

// isNamed reports whether a type is declared by this name.
func isNamed(t types.Type, name string) bool {
	named, ok := t.(*types.Named)
	return ok && named.Obj().Name() == name
}
