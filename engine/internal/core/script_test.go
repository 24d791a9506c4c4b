//go:build !race

package core

import (
	"fmt"
	"testing"

	"github.com/taskengine/taskengine/internal/scripttest"
	"github.com/taskengine/taskengine/task"
)

// TestScripts plays the stories in testdata. scriptCommands has their commands.
func TestScripts(t *testing.T) {
	scripttest.PlayAll(t, func() scripttest.Machine { return new(story).do })
}

type args struct{ scripttest.Args }

// id returns the id of the task with the number in the first word.
func (a args) id() task.ID {
	if n := a.Numbered(0); n >= 1 && n <= 255 {
		return task.ID{15: byte(n)}
	}
	panic(fmt.Sprintf("%q is not the number of a task", a.At(0)))
}

// word returns the words of a command that has one.
func word(w string) args { return args{scripttest.Args{Words: []string{w}}} }
