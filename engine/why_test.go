package engine_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/task"
)

func TestWhySaysWhatAHeavyTaskNeedsAndThatALightOneIsBehindIt(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var j journal
		set := one("light", func(p *policy.Type) { p.Limits = []string{"total"} })
		set.Types["heavy"] = func() policy.Type {
			p := policy.DefaultType()
			p.Limits, p.Weight = []string{"total"}, 4
			return p
		}()
		set.Limits = map[string]policy.Limit{"total": {Name: "total", Max: 4}}
		work := task.HandlerFunc(j.work(time.Hour))
		n := start(t, set, map[string]task.Handler{"light": work, "heavy": work})
		holder := n.submit(engine.Request{Type: "light"})
		heavy := n.submit(engine.Request{Type: "heavy"})
		light := n.submit(engine.Request{Type: "light"})
		synctest.Wait()
		for id, want := range map[task.ID]engine.Reason{
			heavy: {Code: engine.CodeLimit, Limit: "total", Used: 1, Max: 4, Text: "limit total: 1 of 4 used; it takes 4, and 3 are free"},
			light: {
				Code: engine.CodeQueue, Limit: "total", Used: 1, Max: 4,
				Text: "limit total: task " + heavy.String() + " of type heavy is before it and needs 4 slots; 3 are free",
			},
		} {
			_, why, err := n.Why(t.Context(), id)
			if err != nil || len(why) != 1 || len(why[0].Holders) != 1 || why[0].Holders[0] != holder {
				t.Errorf("why: %+v %v", why, err)
				continue
			}
			if why[0].Holders = nil; fmt.Sprint(why[0]) != fmt.Sprint(want) {
				t.Errorf("why: %+v, want %+v", why[0], want)
			}
		}
	})
}

func TestWhyIsTrueOfAQueueThatIsNotInMemory(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var j journal
		set := one("x", func(p *policy.Type) { p.Limits, p.Concurrency = []string{"value"}, 1 })
		set.Limits = map[string]policy.Limit{"value": {Name: "value", Max: 1, Per: "ordering_key"}}
		node := start(t, set, handle("x", j.work(time.Hour)))
		node.close()
		node.config.LookAhead, node.config.QueueLookAhead = 20, 2
		node.open()
		node.submit(engine.Request{Type: "x"})
		var last task.ID
		for i := range 100 {
			last = node.submit(engine.Request{Type: "x", OrderingKey: fmt.Sprint("value ", i)})
		}
		_, why, err := node.Why(t.Context(), last)
		text := fmt.Sprint(why)
		if err != nil || !strings.Contains(text, "its queue is not in memory") || strings.Contains(text, "0 others") {
			t.Errorf("why: %+v %v", why, err)
		}
		if err := node.Pause(t.Context(), "x"); err != nil {
			t.Fatal(err)
		}
		if _, why, err := node.Why(t.Context(), last); err != nil || why[0].Code != engine.CodePaused || strings.Contains(fmt.Sprint(why), "memory") {
			t.Errorf("why, of a type that is paused: %+v %v", why, err)
		}
	})
}

func TestWhySaysThatATypeHasAgeing(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var j journal
		set := one("work", func(p *policy.Type) { p.Ageing = 10 * time.Minute })
		set.Slots = 1
		n := start(t, set, handle("work", j.work(time.Hour)))
		n.submit(engine.Request{Type: "work"})
		n.submit(engine.Request{Type: "work", Priority: new(uint8(0))})
		id := n.submit(engine.Request{Type: "work"})
		synctest.Wait()
		_, why, err := n.Why(t.Context(), id)
		want := "1 others of its type and group are before it; with ageing, a level of priority counts like 10m0s of waiting"
		if err != nil || len(why) != 2 || why[1].Code != engine.CodeQueue || why[1].Text != want {
			t.Errorf("why: %+v %v, want %q", why, err, want)
		}
	})
}
