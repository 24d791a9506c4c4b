package engine_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/coord/local"
	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/task"
)

// downBus is a bus that takes hints and loses them.
type downBus struct {
	*local.Node
	why error
}

func (downBus) Publish(context.Context, ...task.Hint) error { return nil }
func (b downBus) BusStatus() coord.BusStatus                { return coord.BusStatus{Down: b.why} }

func TestWithoutItsBusTasksRunAndWhySaysThatHintsAreMissing(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		g := newGroup(t)
		g.busDown = errors.New("no broker answers")
		set := one("work", nil)
		set.Slots = 1
		a := g.join("a", set, takes(time.Second), "work")
		b := g.join("b", set, takes(time.Second), "work")
		time.Sleep(time.Second)
		var ids []task.ID
		said := 0
		for i := range 20 {
			id := a.submit(engine.Request{Type: "work", OrderingKey: fmt.Sprint(i)})
			ids = append(ids, id)
			_, reasons, err := a.Why(t.Context(), id)
			if err != nil {
				t.Fatal(err)
			}
			for i, r := range reasons {
				if r.Code == engine.CodeBus {
					said++
					if i == 0 || reasons[i-1].Code != engine.CodeElsewhere || !strings.Contains(r.Text, "in the store, within about a second: no broker answers") {
						t.Errorf("the reasons are %+v", reasons)
					}
				}
			}
		}
		if said == 0 || said == len(ids) {
			t.Errorf("hints are missing for %d of %d tasks, and the others are of this node", said, len(ids))
		}
		for _, id := range ids {
			a.end(id)
			a.expect(id, task.Done)
		}
		cancelled := b.submit(engine.Request{Type: "work", At: time.Now().Add(time.Hour)})
		if _, reasons, err := a.Why(t.Context(), cancelled); err != nil || reasons[0].Code != engine.CodeScheduled {
			t.Errorf("the reasons are %+v, %v", reasons, err)
		}
		if s, ok := a.BusStatus(); !ok || !errors.Is(s.Down, g.busDown) {
			t.Errorf("the bus is %+v, %t", s, ok)
		}
	})
}
