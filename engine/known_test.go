package engine_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/task"
)

func TestATypeIsKnownIfItIsConfiguredOrALiveNodeAnnouncesItOrATaskOfItHasBegun(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		g := newGroup(t)
		knows := func(m *member, typ string, want bool) {
			t.Helper()
			synctest.Wait() // nodes that have just joined or left are known
			if m.KnowsType(t.Context(), typ) != want {
				t.Errorf("node %s knows the type %s: %v, want %v", m.name, typ, !want, want)
			}
		}
		a := g.join("a", one("mail", nil), takes(0), "mail")
		knows(a, "mail", true)
		knows(a, "mial", false)
		knows(a, "taskengine.schedule", true)
		// Neither a task that waits nor one that was cancelled makes a type known.
		waiting, cancelled := a.submit(engine.Request{Type: "mial"}), a.submit(engine.Request{Type: "mial"})
		if _, err := a.Cancel(t.Context(), task.Ref{ID: cancelled}, "a typo"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		knows(a, "mial", false)

		b := g.join("b", policy.Set{}, takes(0), "report", "mial") // handlers without policies, as programs may have
		knows(a, "report", true)
		knows(a, "mial", true)
		a.end(waiting)
		time.Sleep(10 * time.Second) // an answer is used for so long
		b.close()
		knows(a, "report", false) // no node is left, and no task has begun
		knows(a, "mial", true)    // one was done
		time.Sleep(time.Minute)
		knows(a, "mial", true)
		b.open()
	})
}

func TestTypesThatClientsMakeUpAreNotAllLookedFor(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		n := start(t, one("x", nil), nil)
		unknown := 0
		for i := range 300 {
			if !n.KnowsType(t.Context(), "made up "+string(rune('a'+i))) {
				unknown++
			}
		}
		if unknown != 100 {
			t.Errorf("%d types were looked for", unknown)
		}
		time.Sleep(10 * time.Second)
		if n.KnowsType(t.Context(), "another") {
			t.Error("no type is looked for again")
		}
	})
}
