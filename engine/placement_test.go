package engine_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/task"
)

// inZone gives a node the label of a zone.
func inZone(zone string) func(*engine.Config) {
	return func(c *engine.Config) { c.Labels = map[string]string{"zone": zone} }
}

// exports has a type for nodes of the zone eu.
func exports() policy.Set {
	return one("export", func(p *policy.Type) { p.Nodes = policy.Nodes{"zone": {"eu"}} })
}

// reason checks the reason why a task does not run.
func (m *member) reason(id task.ID, code, text string) {
	m.t.Helper()
	synctest.Wait() // nodes that have just joined know each other
	synctest.Wait() // the nodes know each other
	_, reasons, err := m.Why(context.Background(), id)
	if err != nil || len(reasons) != 1 || reasons[0].Code != code || reasons[0].Text != text {
		m.t.Errorf("node %s says that it is because of %+v, %v; want %s: %s", m.name, reasons, err, code, text)
	}
}

// status returns the state of a type on a node.
func (m *member) status(typ string) engine.TypeStatus {
	m.t.Helper()
	synctest.Wait() // nodes that have just joined know each other
	for _, s := range m.Types() {
		if s.Name == typ {
			return s
		}
	}
	m.t.Fatalf("type %s is not listed", typ)
	return engine.TypeStatus{}
}

func TestATaskRunsOnNodesThatItsTypeNames(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		g := newGroup(t)
		g.change = inZone("us")
		a := g.join("a", exports(), takes(0), "export")
		g.change = inZone("eu")
		b := g.join("b", exports(), takes(0), "export")
		for i := range 20 {
			id := []*member{a, b}[i%2].submit(engine.Request{Type: "export", OrderingKey: fmt.Sprint(i)})
			a.end(id)
			if ran := g.ran(id); !slices.Equal(ran, []string{"b"}) {
				t.Errorf("it ran on %v", ran)
			}
		}
		for _, m := range []*member{a, b} {
			s := m.status("export")
			if s.Handled != (m == b) || s.Nodes.String() != "zone=eu" || !slices.Equal(s.RunBy, []string{"b"}) {
				t.Errorf("node %s says %+v", m.name, s)
			}
		}
	})
}

func TestWhyNamesTheNodesThatAreWantedAndThoseThatAreAlive(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		g := newGroup(t)
		g.change = inZone("us")
		a := g.join("a", exports(), takes(0), "export")
		b := g.join("b", exports(), takes(0), "export")
		for i := range 10 { // some of them are in shards of a, and some of b
			id := a.submit(engine.Request{Type: "export", OrderingKey: fmt.Sprint(i)})
			for _, m := range []*member{a, b} {
				m.reason(id, engine.CodeNoNode, "no live node matches nodes: zone=eu; nodes that are alive: a (zone=us), b (zone=us)")
			}
		}
		g.change = inZone("eu")
		g.join("c", exports(), takes(0))
		id := a.submit(engine.Request{Type: "export"})
		a.reason(id, engine.CodeNoHandler, "no live node that matches nodes: zone=eu has a handler for type export; the matching nodes: c")
		if s := a.status("export"); s.RunBy != nil {
			t.Errorf("it is said to run on %v", s.RunBy)
		}
	})
}

// A node is restarted with another label, and then the other one.
func TestNothingIsLostWhenLabelsChangeAtARestart(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		g := newGroup(t)
		g.change = inZone("us")
		a := g.join("a", exports(), takes(time.Minute), "export")
		g.change = inZone("eu")
		b := g.join("b", exports(), takes(time.Minute), "export")
		var ids []task.ID
		add := func() {
			for i := range 20 {
				ids = append(ids, a.submit(engine.Request{Type: "export", OrderingKey: fmt.Sprint(len(ids), i)}))
			}
		}
		restart := func(m *member, zone string) {
			m.close()
			inZone(zone)(&m.config)
			m.open()
			time.Sleep(10 * time.Second)
		}
		add()
		time.Sleep(10 * time.Second)
		restart(b, "us") // waits for running tasks
		add()
		a.reason(ids[len(ids)-1], engine.CodeNoNode, "no live node matches nodes: zone=eu; nodes that are alive: a (zone=us), b (zone=us)")
		restart(a, "eu")
		add()
		for i, id := range ids {
			a.end(id)
			want := "a"
			if i < 20 {
				want = "b"
			}
			if ran := g.ran(id); !slices.Equal(ran, []string{want}) {
				t.Errorf("task %d ran on %v, want %s once", i, ran, want)
			}
		}
	})
}
