package engine_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/task"
)

// exporters has a type with tasks of some partners for nodes of some zones.
func exporters(change func(*policy.Type)) policy.Set {
	set := one("export", func(p *policy.Type) {
		p.Limits = []string{"partner"}
		if change != nil {
			change(p)
		}
	})
	set.Limits = map[string]policy.Limit{"partner": {Name: "partner", Per: "headers.partner", Nodes: map[string]policy.Nodes{
		"acme": {"zone": {"eu"}}, "acme-*": {"zone": {"eu", "ch"}}, "acme-us": {"zone": {"us"}},
	}}}
	return set
}

func of(partner string) engine.Request {
	return engine.Request{Type: "export", Headers: map[string]string{"partner": partner}}
}

func TestATaskRunsOnNodesThatItsValueNames(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		g := newGroup(t)
		var nodes []*member
		for name, zone := range map[string]string{"a": "us", "b": "eu", "c": "ch"} {
			g.change = inZone(zone)
			nodes = append(nodes, g.join(name, exporters(nil), takes(0), "export"))
		}
		want := []string{"partner acme: zone=eu (b)", "partner acme-*: zone=eu|ch (b, c)", "partner acme-us: zone=us (a)"}
		if got := nodes[0].status("export").Values; !slices.Equal(got, want) {
			t.Errorf("of the values it says %q", got)
		}
		may := map[string]string{"acme": "b", "acme-1": "bc", "acme-us": "a", "other": "abc", "": "abc"}
		ran := make(map[string]map[string]bool)
		for partner, by := range may {
			ran[partner] = make(map[string]bool)
			for i := range 60 {
				r := of(partner)
				switch i % 4 {
				case 1:
					r.At = time.Now().Add(time.Second)
				case 2, 3:
					r.OrderingKey = fmt.Sprint(i)
				}
				id := nodes[i%3].submit(r)
				nodes[0].end(id)
				on := g.ran(id)
				if len(on) != 1 || !strings.Contains(by, on[0]) {
					t.Errorf("a task of %q ran on %v, and not on one of %s", partner, on, by)
				}
				ran[partner][on[0]] = true
			}
			if len(ran[partner]) != len(by) {
				t.Errorf("tasks of %q ran on %v, want all of %s", partner, ran[partner], by)
			}
		}
	})
}

func TestTasksOfAValueThatNoNodeMayRunWaitAndAlarm(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		g := newGroup(t)
		set := exporters(func(p *policy.Type) { p.Timeout.Queue = time.Hour })
		g.change = inZone("us")
		a := g.join("a", set, takes(0), "export")
		b := g.join("b", set, takes(0), "export")
		var ids []task.ID
		for i := range 20 {
			r := of("acme")
			r.OrderingKey = fmt.Sprint(i) // some are in shards of a, and some of b
			if i%2 == 0 {
				r.At = time.Now().Add(time.Minute)
			}
			ids = append(ids, a.submit(r))
		}
		a.end(a.submit(of("other")))
		if got := a.status("export").Values[0]; got != "partner acme: zone=eu (no live node)" {
			t.Errorf("of the value it says %q", got)
		}
		time.Sleep(2 * time.Minute)
		for _, id := range ids {
			if ran := g.ran(id); len(ran) > 0 {
				t.Errorf("it ran on %v", ran)
			}
			for _, m := range []*member{a, b} {
				m.reason(id, engine.CodeNoNode, `no live node that runs type export matches nodes: zone=eu (limit partner, value "acme"); nodes that are alive: a (zone=us), b (zone=us)`)
			}
		}
		found := slices.Concat(a.Unhandled(), b.Unhandled())
		if len(found) != 1 || found[0].Type != "export" || found[0].Tasks != 20 || !strings.Contains(found[0].Value, "zone=eu") {
			t.Errorf("unhandled are %+v", found)
		}
		g.change = inZone("eu")
		c := g.join("c", set, takes(0), "export")
		for _, id := range ids[:10] {
			if c.end(id); !slices.Equal(g.ran(id), []string{"c"}) {
				t.Errorf("it ran on %v", g.ran(id))
			}
		}
		time.Sleep(time.Minute)
		if found := slices.Concat(a.Unhandled(), b.Unhandled(), c.Unhandled()); len(found) != 0 {
			t.Errorf("unhandled are %+v", found)
		}
	})
}

func TestATaskOfAValueThatNoNodeMayRunBecomesAnErrorWhenItHasWaitedTooLong(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		n := start(t, exporters(func(p *policy.Type) { p.Timeout.Queue = time.Minute }), handle("export", takes(0)))
		id := n.submit(of("acme"))
		n.end(n.submit(of("other")))
		_, reasons, err := n.Why(context.Background(), id)
		if err != nil || len(reasons) != 1 || reasons[0].Code != engine.CodeNoNode {
			t.Errorf("it waits because of %+v, %v", reasons, err)
		}
		time.Sleep(2 * time.Minute)
		n.expect(id, task.Error)
	})
}

func TestTasksWithoutAValueMayBeForSomeNodes(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		set := exporters(nil)
		l := set.Limits["partner"]
		l.Nodes = map[string]policy.Nodes{"": {"zone": {"eu"}}}
		set.Limits["partner"] = l
		n := start(t, set, handle("export", takes(0)))
		id := n.submit(of(""))
		n.end(n.submit(of("acme")))
		time.Sleep(2 * time.Minute)
		n.expect(id, task.Submitted)
		if found := n.Unhandled(); len(found) != 1 || found[0].Tasks != 1 || found[0].Value == "" {
			t.Errorf("unhandled are %+v", found)
		}
	})
}
