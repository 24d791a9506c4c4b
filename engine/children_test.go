package engine_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/task"
)

// A task adds children of as many names as its payload says, and then more of the same names.
func TestATaskHasSoManyNamesOfChildren(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		set := one("parent", nil)
		set.Types["child"] = set.Types["parent"]
		n := start(t, set, map[string]task.Handler{
			"parent": task.HandlerFunc(func(_ context.Context, t *task.Task) ([]byte, error) {
				if s := t.Children.Set("0"); s != nil && s.Added == 2 {
					return nil, nil
				}
				names := 0
				fmt.Sscan(string(t.Payload), &names)
				var options []task.AgainOption
				for i := range names {
					options = append(options, task.WithChildren(fmt.Sprint(i), task.Request{Type: "child", At: time.Now().Add(time.Hour)}))
				}
				return nil, task.Again(time.Now().Add(time.Second), options...)
			}),
			"child": task.HandlerFunc(func(context.Context, *task.Task) ([]byte, error) { return nil, nil }),
		})
		most := n.submit(engine.Request{Type: "parent", Payload: fmt.Append(nil, task.MaxChildSets)})
		more := n.submit(engine.Request{Type: "parent", Payload: fmt.Append(nil, task.MaxChildSets+1)})
		time.Sleep(time.Minute)
		synctest.Wait()
		n.expect(most, task.Done)
		if got := n.expect(more, task.Error); !strings.Contains(got.LastError, "1001 names, of 1000 allowed") {
			t.Errorf("the error is %q", got.LastError)
		}
	})
}
