package handler_test

import (
	"context"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/taskengine/taskengine/plugins/handler"
	"github.com/taskengine/taskengine/task"
)

// unencodable is a value of which the encoding panics.
type unencodable struct{}

func (unencodable) MarshalJSON() ([]byte, error) { panic("not this") }

// The work of a handler is done when its result turns out to be no JSON. Another attempt would do it once more.
func TestAResultThatCannotBeEncodedIsAPermanentError(t *testing.T) {
	cyclic := make(map[string]any)
	cyclic["itself"] = cyclic
	for name, value := range map[string]any{
		"not a number": math.NaN(), "infinite": []float64{math.Inf(1)}, "a function": func() {}, "cyclic": cyclic, "a panic": unencodable{},
	} {
		for _, says := range []error{nil, task.Again(time.Unix(1, 0))} {
			h := handler.JSON(func(context.Context, *task.Task, int) (any, error) { return value, says })
			v := task.VerdictOf(h.Handle(t.Context(), &task.Task{Type: "t", Payload: []byte("1")}))
			if v.Outcome != task.Errored || !v.GiveUp || v.Class != "bad_result" || !strings.Contains(v.Error, "cannot be encoded") {
				t.Errorf("%s, with %v: the verdict is %+v", name, says, v)
			}
		}
	}
}
